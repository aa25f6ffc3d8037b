"""Equilibration along k: when, by how much, and the same bits however it is cut."""

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.oracle import ExactProduct
from tests.support.strategies import DTYPES, near_the_end, random_matrix, spread_pair


@cases("decades", [1, 2, 4, 6, 60, 150])
@cases("phi", [0, 1])
def test_spread_along_k_costs_no_accuracy(decades, phi):
    a, b = (random_matrix(40, 40, "complex128", phi, seed) for seed in (1, 2))
    d = 10.0 ** np.linspace(-decades, decades, 40)
    a, b = a * d, b / d[:, np.newaxis]
    error = ExactProduct(a, b).componentwise_error
    # One unit is the rounding of C; of all entries the worst has 2^-52.97 in all.
    assert error(td.gemm(a, b, equilibrate=True)) < 2.0**-52
    if decades >= 4:
        assert error(td.gemm(a, b, num_moduli=16)) > 1e-13


def test_rank_2k_updates_are_equilibrated_as_products():
    a, b = spread_pair(30, 30, 40, 6)
    b = b.conj().T.copy()
    found = td.her2k(a, b, equilibrate=True)
    exact = td.gemm(a, b, op_b="C", num_moduli=49, method="hybrid")
    exact += exact.conj().T
    assert abs(found - exact).max() < 1e-15 * abs(exact).max()
    # The sides of real products may change places.
    a, b = spread_pair(30, 40, 50, 6, "float64")
    found = td.gemm(a, b, equilibrate=True)
    assert same_bits(td.gemm(b.T, a.T, equilibrate=True).T, found)


def test_data_without_spread_keep_their_bits():
    a, b = (random_matrix(50, 50, "complex128", 1.0, seed) for seed in (1, 2))
    for scale in (1, 2.0**300):
        assert td.explain(td.gemm, a * scale, b, equilibrate=True).equilibrated == 0
    assert same_bits(td.gemm(a, b), td.gemm(a, b, equilibrate=False))
    a, b = spread_pair(50, 50, 50, 6)
    assert not same_bits(td.gemm(a, b), td.gemm(a, b, equilibrate=False))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_entry_leaves_the_normal_numbers(dtype):
    """A product of two numbers is exact, though other columns ask for large shifts."""
    info, n = np.finfo(dtype), 20
    A, B = np.ones((2, 5, 2 * n), dtype)
    A[:, n:], B[:, :n] = 2.0**-60, 2.0**-60
    B *= 2.0**100
    for last in (True, False):
        A[2] = 0
        odd = np.nextafter(2**10 * info.tiny, last, dtype=info.dtype)
        A[2, 3] = odd * (1 if last else -1)
        for x, y in ((A, B.T), (B, A.T)):
            found = td.gemm(x, y, equilibrate=True)
            found = found[2] if x is A else found[:, 2]
            assert (found == A[2, 3] * B[0, 3]).all()
    # Factors are normal, too, of columns that reach from end to end.
    ends = info.dtype.type(2) ** np.array([info.maxexp - 4, info.minexp - 10])
    A[:], B[:] = np.repeat(ends, n), np.repeat(ends[::-1], n)
    assert td.explain(td.gemm, A, B.T, equilibrate=True).equilibrated == info.maxexp - 8
    np.testing.assert_array_equal(td.gemm(A, B.T, equilibrate=True), A @ B.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_leave_large_entries_finite(dtype, engine_name):
    A, B = near_the_end(dtype)
    for x, y in ((A, B), (B.T, A.T)):
        found = td.gemm(x, y, engine=engine_name, equilibrate=True)
        np.testing.assert_allclose(found, x @ y, rtol=8 * np.finfo(dtype).eps)


def test_matrices_of_a_stack_take_the_shifts_that_they_take_alone():
    rng, gains = np.random.default_rng(0), 0
    # Two columns in which only one side is not tiny, beside an exact gain.
    exact = np.full((6, 2, 1026), -5.0)
    exact[:, :, :2] = [[0, -100], [-100, 0]]
    stacks = [exact]
    for k in (1, 2, 7, 300):
        # The factor by which the norms gain is about 2, or far from it.
        spread = rng.integers(-5, 1, (20, 2, k)) * rng.integers(0, 9, (20, 1, 1))
        spread[:, :, 0] = 0
        stacks.append(np.where(rng.random(spread.shape) < 0.1, -np.inf, spread))
    for spread in stacks:
        a, b = (np.exp2(spread[:, [x] * 12]) for x in (0, 1))
        a, b = (x * rng.uniform(1, 2, x.shape) for x in (a, b))
        found = td.gemm(a, b, op_b="T")
        for x, y, own in zip(a, b, found, strict=True):
            alone = td.gemm(da.from_array(x), y, op_b="T").compute(scheduler="sync")
            assert same_bits(own, alone)
            gains += td.explain(td.gemm, x, y, op_b="T").equilibrated > 0
    assert 15 < gains < 75
