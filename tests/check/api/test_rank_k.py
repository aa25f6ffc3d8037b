"""Rank-k and rank-2k updates: equal to gemm, symmetric bit for bit, one triangle."""

from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix
from twom_dist import her2k, herk, syr2k, syrk
from twom_dist.kernels.cpu.engine import CpuEngine

METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein")
DTYPES = ("float32", "float64", "complex64", "complex128", "complex128")
N, K = 37, 23


def matrix(seed=1, dtype="complex128", shape=(N, K)):
    return random_matrix(*shape, dtype, 1.0, seed)


def operands(routine):
    return [matrix(seed) for seed in (1, 2)[: 1 + (routine in (her2k, syr2k))]]


@pytest.fixture(params=[4096, 10], ids=["one tile", "tiles"])
def tiled(request):
    with dask.config.set({"twom-dist.largest-tile": request.param}):
        yield


def transpose(x, routine):
    return x.conj().T if routine in (herk, her2k) else x.T


@cases("engine", ["cpu", "reference"])
@cases(("method", "dtype"), zip(METHODS, DTYPES, strict=True))
@cases("routine", [herk, syrk])
def test_an_update_is_gemm_with_the_transpose(tiled, routine, method, dtype, engine):
    if routine is herk and dtype[0] != "c":
        return
    A, op = matrix(dtype=dtype), "C" if routine is herk else "T"
    C = routine(A, method=method, engine=engine)
    assert C.dtype == dtype
    assert (td.gemm(A, A, op_b=op, method=method) == C).all()
    assert (transpose(C, routine) == C).all()
    columns = routine(A, op=op, method=method, engine=engine)
    assert (columns == td.gemm(A, A, op_a=op, method=method)).all()


@pytest.mark.parametrize("routine", [her2k, syr2k])
def test_rank_2k_is_the_sum_of_two_products(tiled, routine):
    A, B = operands(routine)
    C = routine(A, B, alpha=1 - 2j)
    Y = td.gemm(A, B, op_b="C" if routine is her2k else "T", alpha=1 - 2j)
    assert (Y + transpose(Y, routine) == C).all()
    assert (transpose(C, routine) == C).all()


def test_rank_2k_updates_multiply_all_of_a_diagonal_tile():
    """Of rows so long that they are multiplied a few at a time."""
    A, B = (matrix(seed, "float32", (200, 2000)) for seed in (1, 2))
    C = syr2k(A, B)  # first: memory of the other product would hide what is left out
    Y = td.gemm(A, B, op_b="T")
    assert (Y + Y.T == C).all()


@cases("routine", [herk, syrk, her2k, syr2k])
@cases("uplo", ["full", "lower", "upper"])
@cases("alpha", [1, 0, 0.5])
@cases("shape", [(N, K), (6, 0)])
def test_a_triangle_is_that_of_the_whole(tiled, routine, uplo, alpha, shape):
    """The other one is zero in the result, and is not read in C."""
    given = [x[: shape[0], : shape[1]] for x in operands(routine)]
    whole = routine(*given, alpha=alpha)
    part = np.triu if uplo == "upper" else np.tril
    expected = whole if uplo == "full" else part(whole)
    assert (routine(*given, alpha=alpha, uplo=uplo) == expected).all()
    C = matrix(3, shape=whole.shape)
    expected = part(whole + 2 * C)
    if routine in (herk, her2k):
        np.fill_diagonal(expected.imag, 0)
    if uplo == "full":
        strict = np.tril(expected, -1)
        expected = expected + transpose(strict, routine)
    C[part(np.ones(whole.shape)) == 0] = np.nan
    found = routine(*given, C, alpha=alpha, beta=2, uplo=uplo)
    assert (found == expected).all()
    if alpha == 0.5:
        lazy = [da.from_array(x, chunks=(20, 12)) for x in given]
        lazy = routine(*lazy, C, alpha=alpha, beta=2, uplo=uplo)
        assert (lazy.compute(scheduler="sync") == expected).all()


def test_a_row_with_nan_spoils_its_row_and_column_alone(tiled):
    A = matrix()
    clean = herk(A)
    A[5, 3] = np.nan
    C = herk(A)
    kept = np.ones((N, N), bool)
    kept[5], kept[:, 5] = False, False
    assert (C[kept] == clean[kept]).all()
    assert not np.isfinite(C[~kept]).any()


# --- of dask arrays ---------------------------------------------------------------


def test_half_of_the_tiles_are_product_tasks():
    dA = da.from_array(matrix(), chunks=(10, K))
    of_herk, of_gemm = count_stages(herk(dA)), count_stages(td.gemm(dA, dA.T))
    assert of_herk["twom-product"] == 4 * 5 // 2
    assert of_herk["twom-exponents"] == 4
    assert of_gemm["twom-product"] == 16


def test_what_nobody_asks_for_is_not_made():
    C = herk(da.from_array(matrix(), chunks=(10, K)))
    corner, below, above = C[:10, :10], C[30:, :10], C[:10, 30:]
    for part in (corner, below, above):
        (culled,) = dask.optimize(part)
        assert count_stages(culled)["twom-product"] == 1
    assert (above.compute() == below.compute().conj().T).all()


@cases("routine", [herk, syrk, her2k, syr2k])
@cases(("method", "chunks"), [("2m", (30, 7)), ("hybrid", (16, 16, 5))])
def test_the_int8_products_that_run_are_those_of_the_plan(routine, method, chunks):
    """A tile of herk's diagonal takes half as many as another one."""
    counted, multiply = [], CpuEngine.multiply

    def count(self, left, right, system, before, *, hermitian=False, **options):
        products = system.num_hermitian_products if hermitian else system.num_products
        counted.append((products, 2 * products * left.rows * right.rows * left.k))
        options["hermitian"] = hermitian
        return multiply(self, left, right, system, before, **options)

    given = [da.from_array(x, chunks=(chunks, (20, 3))) for x in operands(routine)]
    options = {"method": method, "num_moduli": 14}
    plan = td.plan(routine, *given, **options)
    with mock.patch.object(CpuEngine, "multiply", count):
        routine(*given, **options).compute(scheduler="sync")
    found = [sum(x) for x in zip(*counted, strict=True)]
    assert found == [plan.num_int8_gemms, plan.int8_operations]
