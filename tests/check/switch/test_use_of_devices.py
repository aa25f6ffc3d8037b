"""CuPy's operators, methods and functions in a block; nothing is computed."""

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import ArgumentError
from twom_dist.kernels.family import empty_block
from twom_dist.switch import calls

cupy = pytest.importorskip("cupy")


@pytest.fixture
def called(monkeypatch):
    """Functions of ours that say that they were called."""

    def say(name):
        def function(*args, **more):
            given = [x for x in args if not isinstance(x, cupy.ndarray)]
            return (name, *given, *(["out"] if more.get("out") is not None else []))

        return function

    before = dict(vars(cupy)), dict(vars(cupy.ndarray))
    for name in ("matmul", "tensordot", "einsum"):
        monkeypatch.setattr(calls, name, say(name))
    yield
    assert (dict(vars(cupy)), dict(vars(cupy.ndarray))) == before


DOT = ("tensordot", (-1, -2))
CALLS = [
    (lambda x: x @ x, ("matmul",)),
    (lambda x: cupy.matmul(x, x), ("matmul",)),
    (lambda x: cupy.matmul(x, x, out=x), ("matmul", "out")),
    (lambda x: np.matmul(x, x), ("matmul",)),
    (lambda x: np.matmul(x, x, out=x), ("matmul", "out")),
    (lambda x: cupy.dot(x, x), DOT),
    (lambda x: np.dot(x, x), DOT),
    (lambda x: x.dot(x), DOT),
    (lambda x: cupy.tensordot(x, x, 1), ("tensordot", 1)),
    (lambda x: np.tensordot(x, x, axes=1), ("tensordot", 1)),
    (lambda x: cupy.einsum("ij,jk", x, x), ("einsum", "ij,jk")),
    (lambda x: np.einsum("ij,jk", x, x), ("einsum", "ij,jk")),
]


@cases(("call", "expected"), CALLS)
def test_products_are_ours(called, call, expected):
    with td.use(method="2m") as used:
        assert call(empty_block("cupy", "complex128")) == expected
    assert (used.ours, used.left) == (1, 0)


def test_others_are_refused(called):
    x = empty_block("cupy", "int64")
    with td.use(strict=True):
        with raises(ArgumentError, "dtype"):
            _ = x @ x
        with raises(ArgumentError, "not-a-matrix"):
            _ = empty_block("cupy", "complex128") @ 3


@cases("caller", ["dask.array.routines", "cupy.linalg", "twom_dist"])
def test_libraries_are_not_answered(called, caller, monkeypatch):
    """Tasks that are computed in the block, and CuPy's own functions, are theirs."""
    x = empty_block("cupy", "complex128")
    theirs = eval("lambda x: cupy.matmul(x, x)", {"__name__": caller, "cupy": cupy})
    with monkeypatch.context() as patch:
        patch.setattr(cupy, "matmul", lambda x, y: "CuPy's")
        with td.use():
            assert (theirs(x), cupy.matmul(x, x)) == ("CuPy's", ("matmul",))
