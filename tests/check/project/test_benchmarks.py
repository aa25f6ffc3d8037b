"""What benchmarks compute beside measuring, and what the docs show of it."""

import numpy as np
import pytest

import twom_dist as td
from benchmarks import model, small_products
from benchmarks.gpu_reference import Reference
from benchmarks.gpu_schedule import PARTS, REPEATS, SIZES, estimate_seconds
from tests.support.cases import cases
from tests.support.places import ROOT
from tests.support.sources import read

DOCS = ROOT / "docs"
TILES = "--machine h200 --size 131072 --tile 8192 --link 5e10 --routine herk"


def test_each_half_on_a_gpu_takes_less_than_ten_minutes():
    assert all(30 < estimate_seconds(x, SIZES, REPEATS) < 600 for x in PARTS)
    # However slow the peers: they are stopped.
    assert estimate_seconds("peers", [32768], 50) < 600


@cases("dtype", ["complex128", "float64", "complex64"])
def test_errors_are_those_of_exact_sums(dtype):
    A, B = (td.testing.random_matrix(3, 3, dtype=dtype, seed=s) for s in (1, 2))
    C = A @ B
    C[2, 1] *= 1 + 1e-5
    found = Reference(A, B).errors(C)
    exact = td.testing.sampled_errors(A, B, C, samples=60)
    assert found["componentwise"] == pytest.approx(exact["componentwise"], rel=1e-6)
    assert 0 < found["norm"] < found["componentwise"]


def test_errors_of_tall_matrices_are_those_of_some_rows():
    A, B = np.eye(10), np.ones((10, 3))
    C, reference = A @ B, Reference(A, B, most_rows=4)
    C[1] = 0
    assert reference.errors(C) == {"componentwise": 0.0, "norm": 0.0}
    C[9] = 0
    assert reference.errors(C) == {"componentwise": 1.0, "norm": 0.5}


def test_the_documentation_shows_what_is_predicted(capsys):
    for options in (TILES.split(), ["--fits"]):
        model.main(options)
        assert capsys.readouterr().out in read(DOCS / "scaling-out.md")
    small_products.main()
    assert capsys.readouterr().out in read(DOCS / "launches.md")


def test_statements_that_are_counted_hold(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from statements import count_products, list_bits

    verdicts = {x.statement: x.verdict for x in (*count_products(), *list_bits())}
    differing = [name for name, verdict in verdicts.items() if verdict != "pass"]
    assert differing == ["all Eisenstein moduli have 154.5 bits"]
