"""Diagonal tiles: one triangle becomes the mirror image of the other, or zero."""

from ...typing import Array, Uplo
from .compiled import kernel
from .threads import ranges, run_each

# Side of the squares that are turned at a time: both fit the first cache.
_SQUARE = 32


@kernel(_nrt=False)
def _mirror_square(tile, top, left, conjugate, upper):  # type: ignore[no-untyped-def]
    """Mirror a square of the lower triangle; if `upper`, one of the upper triangle."""
    n, parts = tile.shape[0], tile.shape[2]
    for i in range(top, min(n, top + _SQUARE)):
        for j in range(left, min(i, left + _SQUARE)):
            source = tile[j, i] if upper else tile[i, j]
            target = tile[i, j] if upper else tile[j, i]
            target[0] = source[0]
            if parts == 2:
                zero = tile.dtype.type(0)
                target[1] = zero - source[1] if conjugate else source[1]


@kernel(_nrt=False)
def _close_bands(tiles, conjugate, upper, full, lo, hi):  # type: ignore[no-untyped-def]
    """Close bands lo..hi of rows of tiles[matrices, n, n, parts], matrix by matrix."""
    n, parts = tiles.shape[1], tiles.shape[3]
    bands = -(-n // _SQUARE)
    for item in range(lo, hi):
        tile, top = tiles[item // bands], item % bands * _SQUARE
        if full:
            for left in range(0, top + 1, _SQUARE):
                _mirror_square(tile, top, left, conjugate, upper)
        for i in range(top, min(n, top + _SQUARE)):
            if not full:
                cleared = tile[i, :i] if upper else tile[i, i + 1 :]
                cleared[...] = 0
            if conjugate and parts == 2:
                tile[i, i, 1] = 0


def close_tiles(tiles: Array, conjugate: bool, uplo: Uplo) -> None:
    """Close the tiles (matrices, n, n, parts), of a real type, in place."""
    n = tiles.shape[1]
    bands = -(-n // _SQUARE)
    given = tiles, conjugate, uplo == "upper", uplo == "full"
    run_each(
        lambda r: _close_bands(*given, *r),
        ranges(len(tiles) * bands, each=_SQUARE * n),
    )
