"""Exponents of columns, and columns times powers of two."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.shifts import assert_shifts_are_exact
from tests.support.strategies import DTYPES, LAYOUTS, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import ZERO_ROW


@cases("dtype", DTYPES)
@cases("shape", [(1, 1), (37, 75), (5, 300), (300, 7), (0, 3)])
def test_exponents_of_columns(dtype, shape):
    x, engine = spread_matrix(*shape, dtype), get_engine("cpu")
    largest = engine.largest_exponents(x)
    expected = get_engine("reference").column_exponents(x, largest)
    for layout in LAYOUTS.values():
        assert same_bits(engine.column_exponents(layout(x), largest), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponents_of_columns_of_stacks(engine, dtype):
    x = np.stack([spread_matrix(5, 9, dtype), random_matrix(5, 9, dtype)] * 2)
    x = x.reshape(2, 2, 5, 9)
    x[1, 0, 2, 3] = np.nan
    x[0, 0, :, 1] = 0
    largest = engine.largest_exponents(x)
    turned = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    for given in (x, turned):
        found = engine.column_exponents(given, largest)
        for place in np.ndindex(2, 2):
            alone = engine.column_exponents(x[place], largest[place])
            assert same_bits(found[place], alone)


@pytest.mark.parametrize("dtype", DTYPES)
def test_smallest_cosines(engine, dtype):
    x = np.array([random_matrix(7, 50, dtype), np.eye(7, 50) * 2.0**-130], dtype)
    y = np.array([random_matrix(3, 50, dtype)] * 2)
    x[0, 2, 3], x[0, 5], y[1, 1, 1] = np.inf, 0, np.nan
    measured = []
    for t in (x, y):
        largest = engine.largest_exponents(t)
        measured.append((largest, engine.square_sums(t, largest, 20)))
    for left, right in ((0, 1), (0, 0), (1, 1)):
        given = [(x, y)[i] for i in (left, right)]
        own = [measured[i] for i in (left, right)]
        found = engine.smallest_cosines(*given, *own, 20, np.arange(2))
        second = engine.smallest_cosines(*given, *own, 20, np.array([1]))
        assert second == found[1]
        for matrix in range(2):
            rows = [
                abs(t[matrix][np.isfinite(t[matrix]).all(axis=1)]).astype(float)
                for t in given
            ]
            rows = [t[t.any(axis=1)] for t in rows]
            rows = [t / np.linalg.norm(t, axis=1, keepdims=True) for t in rows]
            expected = min(1, (rows[0] @ rows[1].T).min())
            assert found[matrix] == pytest.approx(expected, rel=1e-4, abs=1e-15)


def test_exponents_of_columns_leave_out_rows_that_are_not_finite(engine):
    x = np.array([[0.75, 0, 2.0**-1074], [5, 0, 3], [np.nan, 9, 9], [1, -np.inf, 9]])
    found = engine.column_exponents(x, engine.largest_exponents(x))
    assert found.dtype == np.int32
    assert found.tolist() == [[0, ZERO_ROW, -1], [3, ZERO_ROW, 2], [0, ZERO_ROW, 1073]]
    e = np.array([0, 3], np.int32)
    tiles = [engine.column_exponents(x[[i]], e[[i]]) for i in (0, 1)]
    assert np.maximum(*tiles).tolist() == found.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_are_exact_in_every_stage(engine, dtype):
    assert_shifts_are_exact(engine, dtype, LAYOUTS)
