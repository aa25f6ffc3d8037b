"""Triangles of updates: mirror images of tiles, and diagonal tiles.

Rows may be longer than those of a tile, which is then a part of a larger array.
"""

from ...typing import Array, Uplo
from .compiled import inner, kernel
from .threads import ranges, run_each

# Side of the squares that are turned at a time: both fit the first cache.
_SQUARE = 32


@inner(_nrt=False)
def _mirror(source, i, j, target, conjugate):  # type: ignore[no-untyped-def]
    """target[j, i] = source[i, j], conjugated by ``0 - im``."""
    own, image = source[i, j], target[j, i]
    image[0] = own[0]
    if own.size == 2:
        image[1] = target.dtype.type(0) - own[1] if conjugate else own[1]


@kernel(_nrt=False)
def _mirror_bands(source, target, m, n, conjugate, lo, hi):  # type: ignore[no-untyped-def]
    """Mirror bands lo..hi of columns of source[matrices, m, n, parts]."""
    bands = -(-n // _SQUARE)
    for item in range(lo, hi):
        matrix, left = item // bands, item % bands * _SQUARE
        right = min(n, left + _SQUARE)
        x, y = source[matrix], target[matrix]
        for top in range(0, m, _SQUARE):
            for i in range(top, min(m, top + _SQUARE)):
                for j in range(left, right):
                    _mirror(x, i, j, y, conjugate)


def mirror_tiles(
    source: Array, target: Array, shape: tuple[int, int], conjugate: bool
) -> None:
    """Write the transposes, or conjugate ones, of tiles (matrices, m, n, parts)."""
    m, n = shape
    bands = len(source) * -(-n // _SQUARE)
    given = source, target, m, n, conjugate
    run_each(lambda r: _mirror_bands(*given, *r), ranges(bands, each=2 * _SQUARE * m))


@kernel(_nrt=False)
def _close_bands(tiles, n, conjugate, upper, full, lo, hi):  # type: ignore[no-untyped-def]
    """Close bands lo..hi of rows of tiles[matrices, n, n, parts], matrix by matrix."""
    bands = -(-n // _SQUARE)
    for item in range(lo, hi):
        tile, top = tiles[item // bands], item % bands * _SQUARE
        bottom = min(n, top + _SQUARE)
        for left in range(0, top + 1 if full else 0, _SQUARE):
            for i in range(top, bottom):
                for j in range(left, min(i, left + _SQUARE)):
                    if upper:
                        _mirror(tile, j, i, tile, conjugate)
                    else:
                        _mirror(tile, i, j, tile, conjugate)
        for i in range(top, bottom):
            if not full:
                cleared = tile[i, :i] if upper else tile[i, i + 1 : n]
                cleared[...] = 0
            if conjugate and tile.shape[2] == 2:
                tile[i, i, 1] = 0


def close_tiles(tiles: Array, n: int, conjugate: bool, uplo: Uplo) -> None:
    """Close the tiles (matrices, n, n, parts), of a real type, in place."""
    bands = -(-n // _SQUARE)
    given = tiles, n, conjugate, uplo == "upper", uplo == "full"
    run_each(
        lambda r: _close_bands(*given, *r),
        ranges(len(tiles) * bands, each=_SQUARE * n),
    )
