"""Equilibration along k: when, by how much, and the same bits however it is cut."""

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.expect import raises
from tests.support.shifts import assert_large_entries_stay_finite
from tests.support.strategies import DTYPES, random_matrix, spread_pair
from twom_dist.errors import ArgumentError, PlanError
from twom_dist.kernels import get_engine
from twom_dist.kernels.reference.rounding import shift_columns
from twom_dist.kernels.stack_summary import sum_columns
from twom_dist.moduli import ZERO_ROW
from twom_dist.tiles.look.equilibration import GAIN, choose_shifts, may_gain


def exponents(x):
    """Of columns."""
    engine = get_engine("cpu")
    return engine.column_exponents(x, engine.largest_exponents(x))


@pytest.mark.parametrize("decades", [1, 2, 4, 6, 60, 150])
@pytest.mark.parametrize("phi", [0, 1])
def test_spread_along_k_costs_no_accuracy(decades, phi):
    a, b = (random_matrix(40, 40, "complex128", phi, seed) for seed in (1, 2))
    d = 10.0 ** np.linspace(-decades, decades, 40)
    a, b = a * d, b / d[:, np.newaxis]
    found = td.testing.sampled_errors(a, b, td.gemm(a, b, equilibrate=True))
    assert found["componentwise"] < 2.0**-53
    if decades >= 4:
        plain = td.testing.sampled_errors(a, b, td.gemm(a, b, num_moduli=16))
        assert plain["componentwise"] > 1e-13


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bits_are_those_of_every_engine_and_tiling(dtype):
    decades = 6 if dtype in ("float64", "complex128") else 3
    a, b = spread_pair(30, 40, 50, decades, dtype)
    a[3, 4], b[5, 6] = np.nan, np.inf
    expected = td.gemm(a, b, equilibrate=True, engine="reference")
    assert not same_bits(expected, td.gemm(a, b, equilibrate=False))
    assert same_bits(td.gemm(a, b, equilibrate=True), expected)
    for op, stored in (("T", a.T), ("C", a.conj().T)):
        given = {"op_a": op, "equilibrate": True}
        assert same_bits(td.gemm(np.ascontiguousarray(stored), b, **given), expected)
    for rows, k in ((10, 7), (30, 50), (7, 50)):
        x, y = (da.from_array(t, chunks=c) for t, c in ((a, (rows, k)), (b, (k, rows))))
        product = td.gemm(x, y, equilibrate=True)
        assert same_bits(product.compute(), expected)
        part = product[:5, 3:9].compute()
        assert same_bits(part, np.ascontiguousarray(expected[:5, 3:9]))


def test_rank_2k_updates_are_equilibrated_as_products():
    a, b = spread_pair(30, 30, 40, 6)
    b = b.conj().T.copy()
    found = td.her2k(a, b, equilibrate=True)
    exact = td.gemm(a, b, op_b="C", num_moduli=49, method="hybrid")
    exact += exact.conj().T
    assert abs(found - exact).max() < 1e-15 * abs(exact).max()
    lazy = td.her2k(
        *(da.from_array(x, chunks=(7, 11)) for x in (a, b)), equilibrate=True
    )
    assert same_bits(lazy.compute(), found)


def test_rows_that_are_not_finite_change_no_other_entry():
    a, b = spread_pair(8, 8, 20, 6)
    wide = a.copy()
    wide[2], wide[2, 3] = 1e200, np.nan
    rows = [0, 1, 3, 4, 5, 6, 7]
    expected = td.gemm(a[rows], b, equilibrate=True)
    assert same_bits(td.gemm(wide, b, equilibrate=True)[rows], expected)


def test_data_without_spread_keep_their_bits():
    a, b = (random_matrix(50, 50, "complex128", 1.0, seed) for seed in (1, 2))
    for scale in (1, 2.0**300):
        assert choose_shifts(exponents(a * scale), exponents(b.T), "f8") is None
    assert same_bits(td.gemm(a, b), td.gemm(a, b, equilibrate=False))


def test_the_sides_may_change_places():
    a, b = spread_pair(9, 9, 33, 9)
    e = choose_shifts(exponents(a), exponents(b.T), "c16")
    assert e.dtype == np.int32
    assert (choose_shifts(exponents(b.T), exponents(a), "c16") == -e).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_entry_leaves_the_normal_numbers(dtype):
    info, k = np.finfo(dtype), 300
    powers = np.linspace(info.minexp + 40, info.maxexp - 4, k).astype(int)
    a, b = (random_matrix(5, k, dtype, 0, seed) for seed in (1, 2))
    a *= np.ldexp(info.dtype.type(1), powers)
    b *= np.ldexp(info.dtype.type(1), powers[::-1])
    # Some columns reach from one end of the numbers to the other.
    for first, x in enumerate((a, b)):
        x[1] *= np.ldexp(info.dtype.type(1), -30)
        x[2, first::7] = info.smallest_subnormal
        x[3, 2 + first :: 7] = np.nextafter(2**10 * info.tiny, 0, dtype=info.dtype)
    e = choose_shifts(exponents(a), exponents(b), dtype)
    assert np.ptp(e) > info.maxexp // 2
    for x, shifts in ((a, -e), (b, e)):
        assert same_bits(shift_columns(shift_columns(x, shifts), -shifts), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_leave_large_entries_finite(dtype, engine_name):
    assert_large_entries_stay_finite(dtype, engine_name)


def test_columns_that_meet_zeros_alone_do_not_matter():
    a, b = spread_pair(9, 9, 20, 0)
    a[:, 3], b[3] = 1e100, 0
    b[5], a[:, 5] = 1e100, 0
    e = choose_shifts(exponents(a), exponents(b.T), "c16")
    assert e[3] > 300 > -300 > e[5]
    found = td.testing.sampled_errors(a, b, td.gemm(a, b, equilibrate=True))
    assert found["componentwise"] < 2.0**-53
    nothing = np.full((3, 4), ZERO_ROW, np.int32)
    assert choose_shifts(nothing, nothing, "f8") is None


def test_what_cannot_be_equilibrated():
    a = np.eye(3)
    with raises(PlanError, "equilibrate"):
        td.gemm(a, a, equilibrate=1)
    with raises(PlanError, "equilibrate"):
        td.gemm(a, a, method="blas", equilibrate=True)
    with pytest.raises(TypeError, match="equilibrate"):
        td.herk(a, equilibrate=True)
    with raises(ArgumentError, "unknown-option"):
        td.plan(td.herk, a, equilibrate=True)


def test_the_plan_counts_the_tasks_and_nothing_is_read_for_no_result():
    a, b = (da.from_array(x, chunks=10) for x in spread_pair(30, 30, 50, 6))
    product = td.gemm(a, b, equilibrate=True)
    keys = [k for k in product.__dask_graph__().to_dict() if k[0].startswith("twom")]
    assert len(keys) == td.plan(td.gemm, a, b, equilibrate=True).num_tasks
    empty = td.gemm(a, b, alpha=0, equilibrate=True)
    assert len(empty.__dask_graph__().to_dict()) == 9


def test_what_gains_is_marked_among_the_matrices_of_a_stack():
    rng, gains = np.random.default_rng(0), 0
    for k in (1, 2, 7, 300):
        # The factor by which the norms gain is about GAIN, or far from it.
        spread = rng.integers(-5, 1, (200, 2, k)) * rng.integers(0, 9, (200, 1, 1))
        spread[rng.random(spread.shape) < 0.1] = ZERO_ROW
        spread[:, :, 0] = 0
        marked = may_gain(sum_columns(spread[:, 0], spread[:, 1]), k)
        for one, may in zip(spread, marked, strict=True):
            ends = [np.stack([x, x, -x]).astype(np.int32) for x in one]
            found = choose_shifts(*ends, "float64")
            both = 2.0 ** one.sum(axis=0)[(one != ZERO_ROW).all(axis=0)]
            norms = [(4.0 ** x[x != ZERO_ROW]).sum() for x in one]
            gain = np.sqrt(np.prod(norms)) / both.sum()
            assert may or found is None
            assert not may or gain > GAIN * (1 - 2.0**-20)
            gains += found is not None
    assert 100 < gains < 700


def test_columns_of_a_stack_gain_though_their_sums_are_rounded_up():
    """Two columns in which only one side is not tiny, beside an exact gain."""
    spread = np.full((2, 1026), -5)
    spread[:, :2] = [[0, -100], [-100, 0]]
    ends = [np.stack([x, x, -x]).astype(np.int32) for x in spread]
    assert choose_shifts(*ends, "float64") is not None
    assert may_gain(sum_columns(*spread[:, np.newaxis]), 1026)
