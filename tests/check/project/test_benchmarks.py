"""What benchmarks compute beside measuring, and what the docs show of it."""

from importlib import import_module
from re import findall

import numpy as np
import pytest

import twom_dist as td
from benchmarks import model, predicted
from benchmarks.reference import Reference
from benchmarks.statements import count_products, list_bits
from tests.support.cases import cases
from tests.support.oracle import ExactProduct
from tests.support.places import ROOT
from tests.support.sources import read

DOCS = ROOT / "docs"
TILES = "--machine h200 --size 131072 --tile 8192 --link 5e10 --routine herk"


@cases("dtype", ["complex128", "float64", "complex64"])
def test_errors_are_those_of_exact_sums(dtype):
    A, B = (td.testing.random_matrix(3, 3, dtype=dtype, seed=s) for s in (1, 2))
    C = A @ B
    C[2, 1] *= 1 + 1e-5
    found = Reference(A, B).errors(C)
    exact = ExactProduct(A, B).componentwise_error(C)
    assert found["componentwise"] == pytest.approx(exact, rel=1e-6)
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


def test_the_script_for_a_device_finds_what_it_imports():
    pytest.importorskip("cupy")
    script = read(ROOT / "benchmarks" / "first_minutes.sh")
    for module, names in findall(r"from (benchmarks\.\w+) import ([\w, ]+)", script):
        for name in names.split(", "):
            assert hasattr(import_module(module), name)


def test_measurements_of_a_device_stand_beside_predictions(capsys):
    predicted.main([str(ROOT / "benchmarks" / "results" / "gpu.jsonl")])
    rows = [x.split() for x in capsys.readouterr().out.splitlines()[1:]]
    assert len(rows) == sum(map(len, predicted.PREDICTED.values()))
    (row,) = (x for x in rows if x[:3] == ["gemm,", "TF/s", "8192"])
    assert row[3:] == ["180", "170"]


def test_statements_that_are_counted_hold():
    assert {x.verdict for x in (*count_products(), *list_bits())} == {"pass"}
