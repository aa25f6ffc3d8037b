"""What method="auto" chooses, by sizes, dtypes and what else is asked for."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError
from twom_dist.problem import crossover

BELOW = "twom-dist.blas-below"


@pytest.fixture
def vnni(monkeypatch):
    """A machine on which int8 products are quick."""
    monkeypatch.setattr(crossover, "_has_vnni", lambda: True)


def method_of(shape, routine="gemm", **options):
    m, n, k = shape
    matrices = ((m, k), (k, n)) if routine == "gemm" else ((m, k),)
    return td.explain(getattr(td, routine), *matrices, method="auto", **options).method


@pytest.mark.parametrize(
    ("shape", "routine", "expected"),
    [
        ((9000, 9000, 9000), "gemm", "blas"),
        ((2048, 2048, 2048), "herk", "2m"),
        ((2046, 2046, 2046), "herk", "2m"),  # of size 682, which is the table's
        ((2045, 2046, 2046), "herk", "blas"),
        ((2040, 2040, 2048), "herk", "blas"),
        ((100000, 100000, 300), "herk", "blas"),
        ((9000, 9000, 9000), "syrk", "blas"),
    ],
)
def test_sizes_decide(vnni, shape, routine, expected):
    assert method_of(shape, routine) == expected


def test_without_vnni_products_are_native(monkeypatch):
    monkeypatch.setattr(crossover, "_has_vnni", lambda: False)
    assert method_of((9000, 9000, 9000), "herk") == "blas"
    assert crossover.prefers_native("cpu", "herk", "complex128", (9000,) * 3)
    assert not crossover.prefers_native("cuda", "gemm", "complex128", (9000,) * 3)


@pytest.mark.parametrize(
    "options",
    [
        {"num_moduli": 12},
        {"accuracy": "componentwise"},
        {"accuracy": 1e-5},
        {"equilibrate": True},
        {"engine": "reference"},
    ],
)
def test_what_the_native_product_does_not_give_is_int8(options):
    assert method_of((10, 10, 10), **options) != "blas"
    assert method_of((10, 10, 10)) == "blas"


def test_the_setting_decides_where_it_is_given():
    with dask.config.set({BELOW: 0}):
        assert method_of((2, 2, 2)) == "2m"
    with dask.config.set({BELOW: 100}):
        assert method_of((299, 300, 300)) == "blas"
        assert method_of((300, 300, 300)) == "2m"
    assert method_of((2, 2, 2)) == "blas"
    for wrong in (-1, "big", True):
        with dask.config.set({BELOW: wrong}), raises(PlanError, "setting"):
            method_of((2, 2, 2))


def test_the_choice_and_its_reason_are_explained(vnni):
    small, large = (td.explain(td.herk, (n, n), method="auto") for n in (300, 6000))
    assert small.choice.startswith("native: size 100 is below 682 (Intel Xeon")
    assert large.choice.startswith("int8: size 2000 is at least 682")
    assert "chosen" in str(small)
    assert td.explain(td.gemm, (9, 9), (9, 9)).choice == ""
    given = td.explain(td.gemm, (9, 9), (9, 9), method="auto", num_moduli=9)
    assert given.choice == "int8, since num_moduli=9 was given"
    assert (small.asked, given.asked) == ("method auto", "method auto, 9 moduli")


@pytest.mark.parametrize("below", [0, 1e9])
def test_every_routine_takes_auto_and_chunks_change_nothing(below):
    a = random_matrix(12, 9)
    lazy = da.from_array(a, chunks=(5, 9))
    method = "blas" if below else "2m"
    with dask.config.set({BELOW: below}):
        for routine, count in (("gemm", 2), ("herk", 1), ("syr2k", 2)):
            call, op = getattr(td, routine), {"op_b": "C"} if routine == "gemm" else {}
            expected = call(*(a,) * count, method=method, **op)
            assert (call(*(a,) * count, method="auto", **op) == expected).all()
            found = call(*(lazy,) * count, method="auto", **op)
            found = found.compute(scheduler="sync")
            if not below:
                assert (found == expected).all()
            assert np.allclose(found, expected)


def test_the_table_is_of_what_can_be_asked_for():
    for engine, routine, dtype in crossover._TABLE:
        assert engine in ("cpu", "cuda")
        assert routine in ("gemm", "herk", "syrk")
        assert np.dtype(dtype).char in "fdFD"
