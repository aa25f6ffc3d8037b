"""Exponents of columns, and columns times powers of two."""

import numpy as np
import pytest

from tests.pipeline import same_bits
from tests.strategies import DTYPES, LAYOUTS, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import ZERO_ROW


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (37, 75), (5, 300), (300, 7), (0, 3)])
def test_exponents_of_columns(dtype, shape):
    x, engine = spread_matrix(*shape, dtype), get_engine("cpu")
    largest = engine.largest_exponents(x)
    expected = get_engine("reference").column_exponents(x, largest)
    for layout in LAYOUTS.values():
        assert same_bits(engine.column_exponents(layout(x), largest), expected)


def test_exponents_of_columns_leave_out_rows_that_are_not_finite(engine):
    x = np.array([[0.75, 0, 2.0**-1074], [5, 0, 3], [np.nan, 9, 9], [1, -np.inf, 9]])
    found = engine.column_exponents(x, engine.largest_exponents(x))
    assert found.dtype == np.int32
    assert found.tolist() == [[0, ZERO_ROW, -1], [3, ZERO_ROW, 2], [0, ZERO_ROW, 1073]]
    e = np.array([0, 3], np.int32)
    tiles = [engine.column_exponents(x[[i]], e[[i]]) for i in (0, 1)]
    assert np.maximum(*tiles).tolist() == found.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_entries_beside_an_inf_stay_finite_and_signed(engine, dtype):
    info = np.finfo(dtype)
    x = np.array([[np.inf, -info.max, info.tiny, -info.tiny, 0]], dtype)
    shifts = np.array([0, 60, -100, 60, 9], np.int32)
    found = engine.scale_columns(x, shifts)
    assert np.isinf(found[0, 0].real)
    assert found[0, 1].real == -info.max
    assert found[0, 2].real == info.smallest_subnormal
    assert found[0, 3].real == -info.tiny * 2.0**60
    assert found[0, 4] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_times_powers_of_two(engine, dtype):
    x = random_matrix(7, 5, dtype, 1.0)
    x[1, 2], x[2, 3] = np.nan, np.inf
    shifts = np.array([0, 60, -60, 120, -100], np.int32)
    for layout in LAYOUTS.values():
        found = engine.scale_columns(layout(x), shifts)
        assert found.dtype == x.dtype
        with np.errstate(invalid="ignore"):
            assert same_bits(found.real, np.ldexp(x.real, shifts))
            assert same_bits(found.imag, np.ldexp(x.imag, shifts))
