"""Elements of rows with NaN and Inf: products of signs, and none of rows with a NaN."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.pipeline import REFERENCE
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, ZERO_ROW

INF, NAN = np.inf, np.nan
PATTERNS = (
    *("a NaN in each row", "an Inf in each row", "an Inf in each row of both", "a row"),
    *("a column", "an entry", "both and NaN", "some of all kinds", "of one sign"),
    "all",
)


def make_pair(pattern, m, n, k, dtype):
    """Return X (m x k) and Y (n x k) with zeros among their entries."""
    x, y = (random_matrix(rows, k, dtype, 1.0, rows) for rows in (m, n))
    x[:, 1], y[0], y[:, 4] = 0, 0, -0.0

    def cast(value):
        """Move the value of an imaginary part where there is none."""
        is_real = isinstance(value, complex) and x.dtype.kind != "c"
        return value.imag if is_real else value

    def fill_rows(t, value):
        t[np.arange(len(t)), 7 * np.arange(len(t)) % k] = cast(value)

    match pattern:
        case "a NaN in each row":
            fill_rows(x, complex(1, NAN))
        case "an Inf in each row":
            fill_rows(x, complex(0, -INF))
        case "an Inf in each row of both":
            fill_rows(x, INF)
            fill_rows(y, complex(INF, INF))
        case "a row":
            x[1] = -INF
        case "a column":
            y[:, 2] = INF
        case "an entry":
            y[3, -1] = -INF
        case "both and NaN":
            x[2, -1], x[1, 0], x[3] = NAN, -INF, 0
            y[1, -1], y[-1, 0], y[0, 0] = INF, NAN, cast(complex(1, NAN))
        case "some of all kinds":
            values = INF, -INF, complex(0, INF), complex(-INF, INF), 0, complex(1, -INF)
            for t, seed in ((x, 1), (y, 2)):
                some = np.random.default_rng(seed).random(t.shape) < 0.03
                t[some] = [cast(values[i % len(values)]) for i in range(some.sum())]
        case "of one sign":
            x[...], y[...] = np.abs(x) + 1, np.abs(y) + 1
            x[:, ::3] = INF
        case "all":
            x[...] = INF
    return x, y


def multiply_signs(x, y):
    """Multiply X Y^T with the signs of finite entries, and the others as they are.

    All terms are summed one by one, which no BLAS may skip.
    """

    def product(a, b):
        signs = (np.where(np.isfinite(t), np.sign(t), t) for t in (a, b))
        a, b = (t.astype(np.float64) for t in signs)
        return (a[:, np.newaxis] * b).sum(axis=-1)

    with np.errstate(invalid="ignore"):
        if x.dtype.kind != "c":
            return product(x, y)
        out = np.empty((len(x), len(y)), complex)
        out.real = product(x.real, y.real) - product(x.imag, y.imag)
        out.imag = product(x.real, y.imag) + product(x.imag, y.real)
    return out


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
    native = multiply_signs(*given)
    expected = REFERENCE.scale_and_add(native, *scalars.values(), c, x.dtype)
    bad = [~np.isfinite(t).all(axis=-1) for t in (x, y)]
    reached = bad[0][:, np.newaxis] | bad[1]
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
