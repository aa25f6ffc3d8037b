"""Chunks whose rows nobody has counted: products where k is known, as in dask."""

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.lies import LIES, lying
from tests.support.splits import split_along_k
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix
from twom_dist.errors import KernelError, PlanError

ROWS, K, COLUMNS = 60, 40, 30
x, y = random_matrix(ROWS, K), random_matrix(COLUMNS, K, seed=1)
# One chunk of rows has none left.
x[17:34, 0] = -1


def chosen(array, chunks):
    """Rows that begin with a positive number: of the array and of dask's."""
    lazily = da.from_array(array, chunks=chunks)
    return array[array[:, 0].real > 0], lazily[lazily[:, 0].real > 0]


(a, A), (b, B) = chosen(x, (17, 13)), chosen(y, (11, 13))
Y = da.from_array(y, chunks=(11, 13))
i, I8 = chosen(np.random.default_rng(1).integers(-9, 9, (ROWS, K), "i1"), (17, 13))


def refuses_to_compute(*products):
    for product in products:
        with raises(KernelError, "block-shape"):
            product.compute(scheduler="sync")


@cases("split", [(1, 1), (2, 2)])
@cases(
    "call",
    [
        lambda a, b, y, i: td.gemm(a, y, op_b="T"),
        lambda a, b, y, i: td.gemm(a, b, op_b="C", num_moduli=15),
        lambda a, b, y, i: td.gemm(a, b, td.gemm(a, b, op_b="T"), op_b="T", beta=2),
        lambda a, b, y, i: td.herk(a, accuracy="normwise"),
        lambda a, b, y, i: td.syr2k(a, 2 * a),
        lambda a, b, y, i: td.twofold.herk(a)[1],
        lambda a, b, y, i: td.integers.gemm(i, i, op_b="T"),
    ],
)
def test_bits_are_those_of_known_sizes(call, split):
    with split_along_k(*split):
        found = call(A, B, Y, I8)
    assert np.isnan(found.shape[0])
    assert same_bits(found.compute(scheduler="sync"), call(a, b, y, i))


def test_plans_estimate_what_is_unknown():
    plan = td.plan(td.gemm, A, Y, op_b="T")
    assert (plan.grid.m, plan.tiles) == ((13,) * 4, (4, 3, 4))
    assert plan.num_tasks == count_stages(td.gemm(A, Y, op_b="T")).total()


@cases(
    "call",
    [
        # Along k, in stacks, of tiles of zeros, and where something must be cut.
        lambda: td.gemm(A, B),
        lambda: td.herk(A, op="C"),
        lambda: td.gemm(A[None], Y, op_b="T"),
        lambda: td.herk(A, uplo="lower"),
        lambda: td.gemm(A, Y, op_b="T", alpha=0),
        lambda: td.her2k(A, x),
        lambda: td.her2k(A, A.rechunk({1: K})),
        lambda: td.gemm(A, Y, np.ones((len(a), COLUMNS)), op_b="T", beta=1),
        lambda: td.gemm(A, Y, da.ones((50, COLUMNS), chunks=10), op_b="T", beta=1),
        lambda: td.plan(td.gemm, A, Y, op_b="T", chunks=5),
        lambda: td.explain(td.gemm, A, Y, op_b="T"),
    ],
)
def test_sizes_that_have_to_be_known(call):
    with raises(PlanError, "unknown-chunks") as caught:
        call()
    assert "compute_chunk_sizes()" in caught.value.remedy


@cases(
    ("split", "how", "end"),
    [((1, 1), "hold", 1), ((2, 1), "stream", -1), ((1, 2), "hold", -1)],
)
def test_tiles_of_a_row_that_turn_out_unlike(split, how, end):
    """Kernels trust their sizes: they would read and write elsewhere."""

    def cut(block, block_info):
        return block[:end] if block_info[0]["chunk-location"][1] else block

    def unlike(x):
        given = da.from_array(x, chunks=(ROWS, 10))
        unknown = {"chunks": ((np.nan,), (10,) * 4), "meta": x[:0, :0]}
        return given.map_blocks(cut, dtype=x.dtype, **unknown)

    whole = np.ones((ROWS, K), np.int8)
    i, z = unlike(whole), unlike(whole + 1j)
    other, columns = (
        da.from_array(x, chunks=(11, 10)).map_blocks(np.copy) for x in (whole, y)
    )
    with dask.config.set({"twom-dist.inputs": how}), split_along_k(*split):
        refuses_to_compute(
            td.integers.gemm(i, other, op_b="T"),
            td.integers.herk(i),
            td.gemm(z, columns, op_b="T", method="blas"),
            td.gemm(z, columns, op_b="T"),
            td.gemm(columns, z, op_b="T", num_moduli=10),
            td.herk(z, accuracy="componentwise"),
            td.twofold.syrk(z)[0],
        )


@cases("lie", ["one dimension", "three dimensions", "fewer columns"])
@cases("how", ["hold", "stream"])
def test_blocks_that_are_no_matrices(how, lie):
    def unlike(x):
        given = da.from_array(x, chunks=(20, 20))
        # The lies do not depend on the blocks, which other tasks may make again.
        chunks = (np.nan,) * 3, (20, 20)
        return given.map_blocks(LIES[lie][1], chunks=chunks, meta=x[:0, :0])

    z, i = unlike(x), unlike(np.ones((ROWS, K), np.int8))
    with dask.config.set({"twom-dist.inputs": how}):
        products = td.gemm(z, z, op_b="T"), td.herk(z, num_moduli=10)
        refuses_to_compute(*products, td.integers.herk(i))
    c = lying(td.gemm(A, Y, op_b="T"), LIES[lie][1])
    refuses_to_compute(td.gemm(A, Y, c, op_b="T", beta=1))
    # Sizes that turn out not to fit.
    whole, c = da.from_array(x, chunks=(17, 13)), da.ones((ROWS, COLUMNS), chunks=17)
    for options in ({}, {"num_moduli": 15}, {"method": "blas"}):
        updates = td.her2k(A, whole, **options), td.syr2k(whole, A, **options)
        products = td.gemm(A, Y, c.rechunk((17, 11)), op_b="T", beta=1, **options)
        refuses_to_compute(*updates, products)
