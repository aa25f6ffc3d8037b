"""Rank-k and rank-2k updates of dask arrays: the bits of NumPy's, half the tasks."""

from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix

N, K = 61, 45
ROUTINES = [td.herk, td.syrk, td.her2k, td.syr2k]
METHODS = ["2m", "3m", "4m", "hybrid", "eisenstein"]


def operands(routine):
    seeds = (1, 2) if routine in (td.her2k, td.syr2k) else (1,)
    return [random_matrix(N, K, "complex128", 1.0, seed) for seed in seeds]


def lazy(matrices, chunks):
    return [da.from_array(x, chunks=chunks) for x in matrices]


def pairs(left, right, others):
    """Combine each of `left` with each of `right`, and both with each other thing."""
    return [
        (x, y, others[(i + j) % len(others)])
        for (i, x), (j, y) in product(enumerate(left), enumerate(right))
    ]


@pytest.mark.parametrize("routine", ROUTINES)
def test_the_other_op_gives_the_same_bits(routine):
    matrices = operands(routine)
    expected = routine(*matrices)
    hermitian = routine in (td.herk, td.her2k)
    turned = [x.conj().T.copy() if hermitian else x.T.copy() for x in matrices]
    op = "C" if hermitian else "T"
    arrays = lazy(turned, (16, 20))
    assert (routine(*arrays, op=op).compute() == expected).all()


def test_half_of_the_tiles_are_product_tasks():
    dA = da.from_array(operands(td.herk)[0], chunks=(10, 45))
    tiles = 7
    of_herk, of_gemm = count_stages(td.herk(dA)), count_stages(td.gemm(dA, dA.T))
    assert of_herk["twom-product"] == tiles * (tiles + 1) // 2
    assert of_herk["twom-exponents"] == tiles
    assert of_gemm["twom-product"] == tiles**2


def test_what_nobody_asks_for_is_not_made():
    dA = da.from_array(operands(td.herk)[0], chunks=(10, 45))
    C = td.herk(dA)
    corner, below, above = C[:10, :10], C[50:60, :10], C[:10, 50:60]
    for part in (corner, below, above):
        (culled,) = dask.optimize(part)
        assert count_stages(culled)["twom-product"] == 1
    assert (above.compute() == below.compute().conj().T).all()


@pytest.fixture
def counted(monkeypatch):
    """int8 products of every tile product that runs, and their operations."""
    from twom_dist.kernels.cpu.engine import CpuEngine

    counted = []
    multiply = CpuEngine.multiply

    def count(self, left, right, system, before, *, hermitian=False, **options):
        products = system.num_hermitian_products if hermitian else system.num_products
        counted.append((products, 2 * products * left.rows * right.rows * left.k))
        options["hermitian"] = hermitian
        return multiply(self, left, right, system, before, **options)

    monkeypatch.setattr(CpuEngine, "multiply", count)
    return counted


def test_a_diagonal_tile_of_herk_needs_half_the_int8_products(counted):
    dA = da.from_array(operands(td.herk)[0], chunks=(16, 45))
    td.herk(dA, num_moduli=16).compute(scheduler="sync")
    of_herk = sum(products for products, _ in counted)
    counted.clear()
    td.gemm(dA, dA, op_b="C", num_moduli=16).compute(scheduler="sync")
    assert 2 * of_herk == sum(products for products, _ in counted) == 2 * 16 * 4 * 4


@pytest.mark.parametrize(
    ("routine", "method", "chunks"),
    pairs(ROUTINES, METHODS, [((30, 7, 24), (20, 25)), (16, 16)]),
)
def test_the_int8_products_that_run_are_those_of_the_plan(
    counted, routine, method, chunks
):
    matrices = operands(routine)
    arrays = lazy(matrices, chunks)
    shapes = [x.shape for x in matrices]
    options = {"method": method, "num_moduli": 14}
    plan = td.plan(routine, *shapes, chunks=arrays[0].chunks, **options)
    routine(*arrays, **options).compute(scheduler="sync")
    assert tuple(map(sum, zip(*counted, strict=True))) == (
        plan.num_int8_gemms,
        plan.int8_operations,
    )


def test_an_update_is_not_computed_while_it_is_built():
    def refuse(block):
        raise AssertionError("computed")

    x = da.ones((8, 8), chunks=4, dtype=complex).map_blocks(refuse, dtype=complex)
    for routine in ROUTINES:
        td_args = (x, x) if routine in (td.her2k, td.syr2k) else (x,)
        assert routine(*td_args).shape == (8, 8)


@pytest.mark.parametrize("alpha", [0, 1])
def test_empty_updates(alpha):
    A = np.ones((6, 0), complex) if alpha else operands(td.herk)[0][:6]
    C0 = random_matrix(6, 6, "complex128", 1.0, 3)
    dA, C = da.from_array(A, chunks=4), da.from_array(C0, chunks=4)
    for uplo in ("full", "lower", "upper"):
        expected = td.herk(A, C0, alpha=alpha, beta=2, uplo=uplo)
        found = td.herk(dA, C, alpha=alpha, beta=2, uplo=uplo).compute()
        assert (found == expected).all()
        assert not td.herk(dA, alpha=0, uplo=uplo).compute().any()
