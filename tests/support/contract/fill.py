"""Elements of rows with NaN and Inf: products of signs, and none of rows with a NaN."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.pipeline import REFERENCE
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, ZERO_ROW

INF, NAN = np.inf, np.nan


def _in_each_row(x, y, value):
    x[np.arange(len(x)), 7 * np.arange(len(x)) % x.shape[1]] = _cast(x, value)


def _cast(x, value):
    """Move the value of an imaginary part where there is none."""
    if x.dtype.kind == "c" or isinstance(value, float):
        return value
    return value.imag


def _sprinkle(x, y):
    values = [INF, -INF, complex(0, INF), complex(-INF, INF), 0, complex(1, -INF)]
    for t, seed in ((x, 1), (y, 2)):
        some = np.random.default_rng(seed).random(t.shape) < 0.03
        t[some] = [_cast(t, values[i % len(values)]) for i in range(some.sum())]


def _positive(x, y):
    for t in (x, y):
        t[...] = np.abs(t) + 1
    x[:, ::3] = INF


def _both(x, y):
    x[2, -1], x[1, 0], x[3] = NAN, -INF, 0
    y[1, -1], y[-1, 0], y[0, 0] = INF, NAN, _cast(y, complex(1, NAN))


# What changes X (m x k) and Y (n x k).
PATTERNS = {
    "a NaN in each row": lambda x, y: _in_each_row(x, y, complex(1, NAN)),
    "an Inf in each row": lambda x, y: _in_each_row(x, y, complex(0, -INF)),
    "an Inf in each row of both": lambda x, y: (
        _in_each_row(x, y, INF),
        _in_each_row(y, x, complex(INF, INF)),
    ),
    "a row": lambda x, y: x.__setitem__(1, -INF),
    "a column": lambda x, y: y.__setitem__((slice(None), 2), INF),
    "an entry": lambda x, y: y.__setitem__((3, -1), -INF),
    "both and NaN": _both,
    "some of all kinds": _sprinkle,
    "of one sign": _positive,
    "all": lambda x, y: x.__setitem__(..., INF),
}


def make_pair(pattern, m, n, k, dtype):
    """Return X (m x k) and Y (n x k) with zeros among their entries."""
    x, y = (random_matrix(rows, k, dtype, 1.0, rows) for rows in (m, n))
    x[:, 1], y[0], y[:, 4] = 0, 0, -0.0
    PATTERNS[pattern](x, y)
    return x, y


def _signs(x):
    return np.where(np.isfinite(x), np.sign(x), x).astype(np.float64)


def _product(x, y):
    """Sum all terms one by one, which no BLAS may skip."""
    with np.errstate(invalid="ignore"):
        return (x[:, np.newaxis] * y).sum(axis=-1)


def native_values(x, y):
    """Multiply X Y^T with the signs of finite entries, and the others as they are."""
    if x.dtype.kind != "c":
        return _product(_signs(x), _signs(y))
    xr, xi, yr, yi = (_signs(t) for t in (x.real, x.imag, y.real, y.imag))
    out = np.empty((len(x), len(y)), complex)
    with np.errstate(invalid="ignore"):
        out.real = _product(xr, yr) - _product(xi, yi)
        out.imag = _product(xr, yi) + _product(xi, yr)
    return out


def is_reached(x, y):
    """Tell the elements whose row or column is not finite."""
    bad = [~np.isfinite(t).all(axis=-1) for t in (x, y)]
    return bad[0][:, np.newaxis] | bad[1]


def assert_fill(engine, x, y, conjugate, **scalars):
    """Compare what is filled with native products of all signs, and leave the rest."""
    largest = (engine.measure(t, 20).largest for t in (x, y))
    # Scaling exponents: those of zeros are 0, and those of no numbers say so.
    rows, columns = (np.where(e == ZERO_ROW, np.int32(0), e) for e in largest)
    fill = engine.find_nonfinite(x, y, rows, columns, conjugate)
    c = np.ones((len(x), len(y)), x.dtype)
    out = c.copy()
    scalars = {"alpha": 1, "beta": 0, **scalars}
    engine.apply_nonfinite(fill, out, **scalars, c=c)
    given = (np.conj(t) if own else t for t, own in zip((x, y), conjugate, strict=True))
    native = native_values(*given)
    expected = REFERENCE.scale_and_add(native, *scalars.values(), c, x.dtype)
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
