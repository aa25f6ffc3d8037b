"""Elements of rows with NaN and Inf: products of signs, and none of rows with a NaN."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.nonfinite import PATTERNS, is_reached, make_pair, native_values
from tests.support.strategies import DTYPES
from twom_dist.kernels import get_engine
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, ZERO_ROW


def assert_fill(engine, x, y, conjugate, **scalars):
    """Compare what is filled with native products of all signs, and leave the rest."""
    largest = (engine.measure(t, 20).largest for t in (x, y))
    # Scaling exponents: those of zeros are 0, and those of no numbers say so.
    rows, columns = (np.where(e == ZERO_ROW, np.int32(0), e) for e in largest)
    fill = engine.find_fill(x, y, rows, columns, conjugate)
    c = np.ones((len(x), len(y)), x.dtype)
    out = c.copy()
    scalars = {"alpha": 1, "beta": 0, **scalars}
    engine.apply_fill(fill, out, **scalars, c=c)
    given = (np.conj(t) if own else t for t, own in zip((x, y), conjugate, strict=True))
    native, scale_and_add = native_values(*given), get_engine("reference").scale_and_add
    expected = scale_and_add(native, *scalars.values(), c, x.dtype)
    reached = is_reached(x, y)
    assert same_bits(out[reached], expected[reached])
    assert same_bits(out[~reached], c[~reached])


@cases("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_filled_elements_are_products_of_signs(engine, dtype, pattern):
    x, y = make_pair(pattern, 7, 9, 70, dtype)
    for conjugate in ((False, False), (True, False), (True, True)):
        assert_fill(engine, x, y, conjugate)
    assert_fill(engine, x, y, (False, True), alpha=-0.5, beta=2.0)
    if x.dtype.kind == "c":
        assert_fill(engine, x, y, (False, True), alpha=0.5 - 1j, beta=1j)


@cases("dtype", DTYPES)
def test_a_nan_is_told_from_an_inf(engine, dtype):
    x, parts = np.ones((6, 5), dtype), [np.nan, np.inf, -np.inf]
    for row, value in enumerate(parts):
        x[row, row] = value
    x[3, :2], x[4, :2] = [np.inf, np.nan], [np.nan, -np.inf]
    if x.dtype.kind == "c":
        x[1, 1], x[4, 0] = complex(0, np.inf), complex(0, -np.nan)
    found = engine.measure(x, 20).largest
    expected = [NAN_ROW, *[NONFINITE_ROW] * 2, *[NAN_ROW] * 2, 1]
    assert found.tolist() == expected
    # Tiles, and shifts that make numbers infinite.
    cut = [engine.measure(t, 20).largest for t in (x[:, :1], x[:, 1:])]
    assert np.maximum(*cut).tolist() == expected
    x[5, 0] = np.finfo(dtype).max
    shifts = np.full(5, 9, np.int32)
    assert engine.measure(x, 20, shifts=shifts).largest[:5].tolist() == expected[:5]
