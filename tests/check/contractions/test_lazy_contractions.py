"""Contractions of dask arrays: lazy, and with the numbers of NumPy."""

from unittest.mock import Mock

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits

SIZES = dict(zip("abcdij", (4, 3, 5, 2, 6, 4), strict=True))


@pytest.fixture(autouse=True)
def local():
    with dask.config.set(scheduler="sync"):
        yield


def draw(term, seed=0):
    shape = [SIZES[x] for x in term]
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(-4, 5, shape) + 1j * rng.integers(-4, 5, shape)


def lazily(function, *given, **options):
    with dask.config.set(scheduler=Mock(side_effect=AssertionError)):
        found = function(*given, **options)
    assert isinstance(found, da.Array)
    return found


PRODUCTS = ["ia,aj->ij", "ai,aj->ji", "abi,ija->bj", "abij,ijc->abc", "aij,ajb->abi"]
PRODUCTS += ["abijc,cijad->bijd", "a,a", "ab,ab->ab", "ii,ic->c", "abi,cj->"]
PRODUCTS += ["abci,abcj->ij", "ab,bc,cd->ad"]


@cases("subscripts", PRODUCTS)
@cases(("chunk", "method"), [(2, "2m"), (3, "auto")])
def test_einsum_is_that_of_numpy(subscripts, chunk, method):
    terms = subscripts.partition("->")[0].split(",")
    operands = [draw(term, i) for i, term in enumerate(terms)]
    lazy = [da.from_array(x, chunks=chunk) for x in operands]
    expected = np.einsum(subscripts, *operands)
    for given in (lazy, [*lazy[:1], *operands[1:]]):
        found = lazily(td.einsum, subscripts, *given, method=method, optimize="greedy")
        assert found.dtype == expected.dtype
        assert (found.compute() == expected).all()


TENSORDOTS = [("abi", "aij", ([0, 2], [0, 1])), ("bab", "bba", ([-1, 1], [0, -1]))]
TENSORDOTS += [("aj", "jaj", ([-2], [0])), ("bb", "b", ([-1], [0]))]


@cases(("left", "right", "axes"), TENSORDOTS)
@cases(("chunk", "method"), [(2, "2m"), (2, "auto"), (3, "auto")])
def test_tensordot_is_that_of_numpy(left, right, axes, chunk, method):
    a, b = draw(left), draw(right, 1)
    given = [da.from_array(x, chunks=chunk) for x in (a, b)]
    expected = np.tensordot(a, b, axes)
    found = lazily(td.tensordot, *given, axes, method=method)
    assert found.shape == expected.shape
    assert (found.compute() == expected).all()


def test_matmul_and_transpose_are_those_of_numpy():
    a, b = draw("abi"), draw("aij")
    x, y = da.from_array(a, chunks=(2, 2, 4)), da.from_array(b, chunks=(3, 4, 3))
    assert (lazily(td.matmul, x, y, method="2m").compute() == a @ b).all()
    assert (td.transpose(x, (1, 2, 0)).compute() == a.transpose(1, 2, 0)).all()
    small = np.arange(12, dtype="int8").reshape(3, 4)
    found = td.einsum("ij,kj->ik", *[da.from_array(small, chunks=2)] * 2)
    assert same_bits(found.compute(), small @ small.T)
    for left, right in (((0, 3), (3, 0)), ((3, 0), (0, 3))):
        found = lazily(td.matmul, np.ones(left), da.ones(right))
        assert same_bits(found.compute(), np.zeros((left[0], right[1])))


INT8 = {"method": "2m"}
UPDATES = [
    (lambda x: td.matmul(x, x.T, **INT8), "syrk"),
    (lambda x: td.matmul(x, x.T.conj(), **INT8), "herk"),
    (lambda x: td.matmul(x.conj().T, x, **INT8), "herk"),
    (lambda x: td.einsum("ij,kj", x.conj(), x, **INT8), "herk"),
    (lambda x: td.matmul(x, (2 * x).T, **INT8), "gemm"),
    # One of both as it lies in memory.
    (lambda x: td.einsum("ij,kj", draw("ai"), x.conj(), **INT8), "herk"),
    (lambda x: td.matmul(x, draw("ai").T, **INT8), "syrk"),
    (lambda x: td.matmul(x, 2 * draw("ai").T, **INT8), "gemm"),
]


@cases(("call", "name"), UPDATES)
def test_updates_are_told_by_names(call, name):
    x = da.from_array(draw("ai"), chunks=(2, 3))
    found = lazily(call, x)
    assert ("twom-update" in found.name) == (name != "gemm")
    assert (found.compute() == call(x.compute())).all()


def test_axes_are_fused_without_merging_blocks():
    x = da.ones((8, 4, 6, 4), chunks=(4, 4, 3, 2))
    found = td.tensordot(x, x, ([2, 3], [2, 3]), method="2m", num_moduli=8)
    assert found.chunks == ((4, 4), (4,), (4, 4), (4,))
    arrays = [x for x in found.dask.values() if isinstance(x, np.ndarray)]
    assert all(block.size <= np.prod(x.chunksize) for block in arrays)
    assert (found.compute() == 24).all()
