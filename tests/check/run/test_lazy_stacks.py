"""Stacks of dask arrays: the chunks of results, the tasks, and the same bits."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases

PAIRS = np.random.default_rng(0).integers(-128, 128, (6, 5, 900, 2), dtype="i1")
LONG = np.random.default_rng(1).standard_normal((6, 3, 2500))


def count_tasks(x):
    """Count the tasks of a graph as dask would run it."""
    return len(dask.optimize(x)[0].__dask_graph__())


def test_integers_are_multiplied_where_they_lie_along_k():
    lazy = da.from_array(PAIRS, chunks=(3, 5, 100, 2))
    found = td.integers.herk(lazy, pairs=True)
    assert found.chunks == ((3, 3), (5,), (5,))
    assert same_bits(found.compute(), td.integers.herk(PAIRS, pairs=True))
    # One for each of 18 chunks; to read and to pack it; to add 9 of them, twice.
    assert count_tasks(found) < 18 * 3 + 2 * 5


@pytest.mark.parametrize("chunks", [(6, 5, 900, 2), (1, 2, 333, 1), (4, 5, 70, 2)])
@pytest.mark.parametrize("name", ["herk", "syrk", "her2k", "gemm"])
def test_scaled_sums_of_pieces_have_the_bits_of_one_product(name, chunks):
    xr = pytest.importorskip("xarray")
    dims = ["channel", "antenna", "time", "cplx"]
    c = np.random.default_rng(2).standard_normal((6, 5, 5)).astype("c8")
    options = {"alpha": 0.3, "beta": 0.7, "dtype": "complex64", "pairs": "cplx"}
    options |= {"dim": "time"} if name == "gemm" else {"dim": "time", "rows": "antenna"}
    options |= {} if name == "gemm" else {"uplo": "lower"}
    # Sums of which single precision does not hold all.
    pairs = PAIRS.astype("i2") * 200
    others = [xr.DataArray(pairs[::-1], dims=dims)] if name in ("her2k", "gemm") else []
    if name == "gemm":
        others = [x.rename(antenna="antenna_2") for x in others]
    c = xr.DataArray(c, dims=["channel", "antenna", "antenna_2"])

    def multiply(x):
        routine = getattr(td.xarray, name)
        return routine(xr.DataArray(x, dims=dims), *others, C=c, **options).values

    assert same_bits(multiply(da.from_array(pairs, chunks=chunks)), multiply(pairs))


@cases("method", ["2m", "blas"])
@cases("chunks", [(6, 3, 2500), (3, 3, 2500), (2, 1, 600), (4, 3, 500)])
def test_long_matrices_are_multiplied_together(method, chunks):
    """One task for each chunk of the stack, however long the matrices are."""
    lazy = da.from_array(LONG, chunks=chunks)
    found = td.syrk(lazy, method=method)
    assert found.chunks == (lazy.chunks[0], (3,), (3,))
    stages = [str(key) for key in found.dask if "twom-stack" in str(key)]
    assert len(stages) == len(lazy.chunks[0])
    assert same_bits(found.compute(), td.syrk(LONG, method=method))
    # The chunks of arrays in memory are those of dask.
    beside = td.gemm(lazy, LONG.swapaxes(1, 2), method=method)
    assert beside.chunks[0] == lazy.chunks[0]


def test_tasks_are_as_large_as_the_memory_allows(monkeypatch):
    lazy = da.from_array(LONG, chunks=(5, 3, 2500))
    # An eighth of the machine, for four blocks of two matrices on each of two threads.
    limit = 8 * 4 * 2 * LONG[:2].nbytes
    monkeypatch.setattr("twom_dist.run.client.machine_memory", lambda: limit)
    monkeypatch.setattr("twom_dist.run.client.CPU_COUNT", 2)
    found = td.syrk(lazy)
    assert found.chunks[0] == (5, 1)
    assert sum("twom-stack" in str(key) for key in found.dask) == 4
    assert same_bits(found.compute(scheduler="sync"), td.syrk(LONG))


@pytest.mark.parametrize("shape", [(3, 0, 7), (3, 4, 0), (0, 4, 7)])
@pytest.mark.parametrize("op", ["N", "C"])
def test_stacks_of_integers_without_entries(shape, op):
    x = np.ones(shape, "i1")
    lazy = da.from_array(x, chunks=(2, 2, 2))
    for options in ({"op": op}, {"op": op, "uplo": "lower"}):
        found = td.integers.herk(lazy, **options)
        assert same_bits(found.compute(), td.integers.herk(x, **options))


@cases("alpha", [0, 0.3, 1e38, -1e-50])
def test_sums_of_pieces_are_scaled_in_one_dtype(alpha):
    """Some are too large for single precision, and others too small."""
    xr = pytest.importorskip("xarray")
    x = xr.DataArray(PAIRS, dims=["channel", "antenna", "time", "cplx"])
    c = xr.DataArray(np.ones((6, 5, 5), "c8"), dims=["channel", "antenna", "antenna_2"])
    options = {"dim": "time", "rows": "antenna", "pairs": "cplx", "dtype": "c8"}
    found = [
        td.xarray.herk(y, c, alpha=alpha, beta=1e-40, **options).values
        for y in (x.chunk(time=100), x)
    ]
    assert same_bits(*found)
