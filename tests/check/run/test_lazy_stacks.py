"""Stacks of dask arrays: the chunks of results, the tasks, and the same bits."""

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.lies import lying
from tests.support.machine import a_machine
from twom_dist.errors import KernelError

PAIRS = np.random.default_rng(0).integers(-128, 128, (6, 5, 900, 2), dtype="i1")
LONG = np.random.default_rng(1).standard_normal((6, 3, 2500))
DIMS = ["channel", "antenna", "time", "cplx"]


# Some sums are too large for single precision, and others too small.
@cases(
    ("name", "alpha", "beta"),
    [
        *(("herk", x, 1e-40) for x in (0, 1e38, -1e-50)),
        *((x, 0.3, 0.7) for x in ("syrk", "her2k", "gemm")),
    ],
)
@cases("chunks", [(6, 5, 900, 2), (1, 2, 333, 1), (4, 5, 70, 2)])
def test_scaled_sums_of_pieces_have_the_bits_of_one_product(name, chunks, alpha, beta):
    xr = pytest.importorskip("xarray")
    label = partial(xr.DataArray, dims=DIMS)
    c = np.random.default_rng(2).standard_normal((6, 5, 5)).astype("c8")
    options = {"dtype": "c8", "pairs": "cplx", "dim": "time"}
    options |= {"alpha": alpha, "beta": beta}
    options |= {} if name == "gemm" else {"uplo": "lower", "rows": "antenna"}
    # Sums of which single precision does not hold all.
    pairs = PAIRS.astype("i2") * 200
    others = [label(pairs[::-1])] if name in ("her2k", "gemm") else []
    if name == "gemm":
        others = [x.rename(antenna="antenna_2") for x in others]
    routine = partial(getattr(td.xarray, name), **options)
    c = xr.DataArray(c, dims=["channel", "antenna", "antenna_2"])
    lazy, eager = (
        routine(label(x), *others, C=c).values
        for x in (da.from_array(pairs, chunks=chunks), pairs)
    )
    assert same_bits(lazy, eager)


@cases("chunks", [(4, 3, 600), (2, 3, 70)])
def test_sums_beyond_what_a_double_holds_are_those_of_one_product(chunks):
    """Two doubles hold them, so pieces along k cannot be added."""
    x = np.random.default_rng(0).integers(-(2**28), 2**28, (4, 3, 600), dtype="i4")
    exact = x.astype(object) @ x.astype(object).swapaxes(1, 2)
    assert abs(exact).max() > 2**59
    with dask.config.set({"array.chunk-size": "1 KiB"}):
        lazy = da.from_array(x, chunks=chunks)
        found = td.integers.matmul(lazy, lazy.swapaxes(1, 2), dtype=object).compute()
    assert (found == exact).all()


@cases("method", ["2m", "blas"])
@cases("chunks", [(6, 3, 2500), (3, 3, 2500), (2, 1, 600), (4, 3, 500)])
def test_long_matrices_are_multiplied_together(method, chunks):
    """One task for each chunk of the stack, however long the matrices are."""
    lazy = da.from_array(LONG, chunks=chunks)
    found = td.syrk(lazy, method=method)
    assert found.chunks == (lazy.chunks[0], (3,), (3,))
    tasks = sum("twom-stack" in str(key) for key in found.dask)
    assert tasks == len(lazy.chunks[0])
    assert same_bits(found.compute(), td.syrk(LONG, method=method))
    # The chunks of arrays in memory are those of dask.
    beside = td.gemm(lazy, LONG.swapaxes(1, 2), method=method)
    assert beside.chunks[0] == lazy.chunks[0]


def test_tasks_are_as_large_as_the_memory_allows():
    lazy = da.from_array(LONG, chunks=(5, 3, 2500))
    # An eighth of the machine, for four blocks of two matrices on each of two threads.
    with a_machine(memory=8 * 4 * 2 * LONG[:2].nbytes, cores=2):
        found = td.syrk(lazy)
    assert found.chunks[0] == (5, 1)
    assert sum("twom-stack" in str(key) for key in found.dask) == 4
    assert same_bits(found.compute(scheduler="sync"), td.syrk(LONG))


@cases("change", [lambda x: x[1:], lambda x: x[:, 1:], lambda x: x[0]])
def test_blocks_of_stacks_that_are_not_what_their_array_says_are_refused(change):
    x = da.ones((4, 3, 5), chunks=(2, 3, 5), dtype=complex)
    liar = lying(x, change)
    for lazy in (td.syr2k(liar, x), td.gemm(x, liar, op_b="T")):
        with raises(KernelError, "block-shape"):
            lazy.compute(scheduler="sync")


@cases("shape", [(3, 0, 7), (3, 4, 0), (0, 4, 7)])
@cases("options", [{"op": "N"}, {"op": "C"}, {"op": "N", "uplo": "lower"}])
def test_stacks_of_integers_without_entries(shape, options):
    x = np.ones(shape, "i1")
    found = td.integers.herk(da.from_array(x, chunks=(2, 2, 2)), **options)
    assert same_bits(found.compute(), td.integers.herk(x, **options))
