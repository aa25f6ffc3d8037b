"""Finished tiles: scaled, mirrored and closed, with the bits of the reference.

Every zero is positive, and every NaN has the same bits.
"""

import numpy as np

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.pipeline import REFERENCE
from tests.support.strategies import DTYPES, LAYOUTS, random_matrix

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
