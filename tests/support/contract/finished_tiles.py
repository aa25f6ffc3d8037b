"""Tiles of a result: scaled, mirrored, closed; filled where rows have NaN or Inf."""

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.pipeline import REFERENCE
from tests.support.strategies import DTYPES, LAYOUTS, random_matrix
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, ZERO_ROW

NAN_BITS = {"float32": 0x7FC00000, "float64": 0x7FF8000000000000}
VALUES = [0.0, -0.0, 1.5, -2.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -1e-45]
SCALARS = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-0.5, 2), (1, -1), (2.5, 0)]


def assert_canonical(x):
    """Check the signs of zeros and the bits of NaNs."""
    parts = x.view(x.real.dtype)
    bits = parts.view(f"u{parts.itemsize}")
    assert not np.signbit(parts[parts == 0]).any()
    assert (bits[np.isnan(parts)] == NAN_BITS[parts.dtype.name]).all()


def tiles(dtype, shapes):
    """Every pair of values as the parts of an entry, or of neighbours; random tiles.

    One of them has strides below 0.
    """
    pairs = np.array([[re, im] for re in VALUES for im in VALUES])
    with np.errstate(under="ignore"):
        real = pairs.astype(np.dtype(dtype).type(0).real.dtype)
    drawn = [random_matrix(*shape, dtype, 9.0, 1) for shape in shapes]
    every = np.ascontiguousarray(real.view(dtype).reshape(10, -1))
    return [every, *drawn, drawn[-1][::-1, ::-1]]


SHAPES = (1, 1), (0, 4), (5, 3), (33, 65)


@cases("dtype", DTYPES)
def test_scaled_and_added(engine, dtype):
    own = [(1j, 0.5), (1, 2 - 1j)] if dtype.startswith("complex") else []
    for x in tiles(dtype, SHAPES):
        for alpha, beta in SCALARS + own:
            given = x if alpha else None, alpha, beta, x[::-1] if beta else None
            before = x.tobytes()
            found = engine.scale_and_add(*given, x.dtype)
            assert_canonical(found)
            assert same_bits(found, REFERENCE.scale_and_add(*given, x.dtype))
            assert found is not x
            assert x.tobytes() == before


@cases("layout", ["C", "fortran", "strided", "read-only"])
@cases("dtype", DTYPES)
def test_mirrored(engine, dtype, layout):
    for x in tiles(dtype, SHAPES):
        x = engine.scale_and_add(x, 1, 0, None, dtype)
        given = LAYOUTS[layout](x)
        for conjugate in (False, True):
            found = engine.mirror_tile(given, conjugate=conjugate)
            assert_canonical(found)
            assert same_bits(found, REFERENCE.mirror_tile(x, conjugate=conjugate))
            assert np.array_equal(found.T, x.conj() if conjugate else x, equal_nan=True)
            if not engine.writes_parts:
                continue
            # Rows of parts are those of the array.
            whole = np.full((2 * x.shape[1] + 3, x.shape[0] + 5), 7, dtype)
            out = whole[2 : 2 + x.shape[1], 4:-1]
            assert engine.mirror_tile(given, conjugate=conjugate, out=out) is out
            assert out.tobytes() == found.tobytes()
            out[...] = 7
            assert (whole == 7).all()


@cases("uplo", ["full", "lower", "upper"])
@cases("dtype", DTYPES)
def test_closed(engine, dtype, uplo):
    n = 150  # more rows than are mirrored at once
    for x in tiles(dtype, [(n, n), (1, 1), (0, 0), (33, 33)]):
        values = engine.scale_and_add(x, 1, 0, None, dtype)
        square = np.resize(values, (n, n) if x.shape[0] != x.shape[1] else x.shape)
        for conjugate in (False, True):
            options = {"conjugate": conjugate, "uplo": uplo}
            found = engine.symmetrise_diagonal_tile(square.copy(), **options)
            assert_canonical(found)
            assert same_bits(
                found, REFERENCE.symmetrise_diagonal_tile(square.copy(), **options)
            )
            if uplo == "full":
                image = REFERENCE.mirror_tile(found, conjugate=conjugate)
                assert image.tobytes() == found.tobytes()
            if not engine.writes_parts:
                continue
            whole = np.full((len(square) + 3, len(square) + 5), 7, dtype)
            part = whole[1:-2, 4:-1]
            part[...] = square
            assert engine.symmetrise_diagonal_tile(part, **options) is part
            assert part.tobytes() == found.tobytes()
            part[...] = 7
            assert (whole == 7).all()


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
