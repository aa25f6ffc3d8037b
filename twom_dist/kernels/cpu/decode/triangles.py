"""Triangles of updates: mirror images of tiles, and diagonal tiles.

Rows in memory may be longer than a tile's rows, if the tile is part of an array.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from ....typing import Array, Uplo
from ..jit import inner, kernel
from ..layout import as_parts, as_stack, read_only, whole_rows
from ..planes import SIDES
from ..threads import ranges, run_each

_SQUARE = 32  # side of the squares that are turned at a time: both fit the first cache


@inner(_nrt=False)
def _mirror_square(source, top, left, rows, columns, target, conjugate, turned):
    """target[left + j, top + i] = source[top + i, left + j], conjugated by ``0 - im``.

    By way of `turned`: rows of large arrays are often as far apart as lines that
    displace each other from the cache.
    """
    zero = target.dtype.type(0)
    for i in range(rows):
        own = source[top + i, left : left + columns]
        if turned.shape[2] == 1:
            for j in range(columns):
                turned[j, i, 0] = own[j, 0]
        elif conjugate:
            for j in range(columns):
                turned[j, i, 0], turned[j, i, 1] = own[j, 0], zero - own[j, 1]
        else:
            for j in range(columns):
                turned[j, i, 0], turned[j, i, 1] = own[j, 0], own[j, 1]
    for j in range(columns):
        image, given = target[left + j, top : top + rows], turned[j]
        if turned.shape[2] == 1:
            for i in range(rows):
                image[i, 0] = given[i, 0]
        else:
            for i in range(rows):
                image[i, 0], image[i, 1] = given[i, 0], given[i, 1]


@kernel
def _mirror_bands(source, target, m, n, conjugate, lo, hi):
    """Mirror bands lo..hi of columns of source[matrices, m, n, parts]."""
    bands = -(-n // _SQUARE)
    turned = np.empty((_SQUARE, _SQUARE, target.shape[3]), target.dtype)
    for item in range(lo, hi):
        matrix, left = item // bands, item % bands * _SQUARE
        columns = min(_SQUARE, n - left)
        x, y = source[matrix], target[matrix]
        for top in range(0, m, _SQUARE):
            rows = min(_SQUARE, m - top)
            _mirror_square(x, top, left, rows, columns, y, conjugate, turned)


def mirror_tile(tile: Array, *, conjugate: bool, out: Array | None = None) -> Array:
    """Transpose a tile, or a stack, and conjugate it: see `Engine.mirror_tile`."""
    *stack, m, n = tile.shape
    if out is None:
        out = np.empty((*stack, n, m), tile.dtype)
    if tile.size == 0:
        return out
    row, entry = tile.strides[-2:]
    if stack or entry != tile.itemsize or row < n * entry or row % entry:
        tile = np.ascontiguousarray(tile)
    source, target = (as_parts(whole_rows(as_stack(x))) for x in (tile, out))
    bands, given = len(source) * -(-n // _SQUARE), (target, m, n, conjugate)
    pieces = ranges(bands, each=2 * _SQUARE * m)
    run_each(lambda r: _mirror_bands(read_only(source), *given, *r), pieces)
    return out


@kernel
def _close_bands(tiles, n, conjugate, side, lo, hi):
    """Close bands lo..hi of rows of tiles[matrices, n, n, parts], matrix by matrix.

    `side`: below 0 what is above the diagonal is cleared, above 0 what is below; 0:
    the lower triangle is mirrored, that of these rows alone.
    """
    bands = -(-n // _SQUARE)
    turned = np.empty((_SQUARE, _SQUARE, tiles.shape[3]), tiles.dtype)
    for item in range(lo, hi):
        tile, top = tiles[item // bands], item % bands * _SQUARE
        rows = min(_SQUARE, n - top)
        for left in range(0, top if side == 0 else 0, _SQUARE):
            where = top, left, rows, _SQUARE
            _mirror_square(tile, *where, tile, conjugate, turned)
        for i in range(top, top + rows):
            # The square on the diagonal is mirrored into itself.
            for j in range(top, i if side == 0 else top):
                own, image = tile[i, j], tile[j, i]
                image[0] = own[0]
                if own.size == 2:
                    image[1] = tile.dtype.type(0) - own[1] if conjugate else own[1]
            if side != 0:
                cleared = tile[i, :i] if side > 0 else tile[i, i + 1 : n]
                cleared[...] = 0
            if conjugate and tile.shape[2] == 2:
                tile[i, i, 1] = 0


def close_tile(tile: Array, *, conjugate: bool, uplo: Uplo) -> Array:
    """Close a tile, or a stack, in place: see `Engine.symmetrise_diagonal_tile`."""
    if tile.size:
        n, close = tile.shape[-1], _closer(tile, conjugate, uplo)
        bands = -(-n // _SQUARE) * prod(tile.shape[:-2])
        # The longest bands of a full tile first: no thread waits for the last of them.
        run_each(lambda r: close(*r), ranges(bands, each=_SQUARE * n)[::-1])
    return tile


def row_closer(tile: Array, conjugate: bool, uplo: Uplo) -> Callable[[int, int], None]:
    """Return what closes rows of one tile, from a multiple of 32 to another or the end.

    It reads these rows alone; of a full tile it writes columns of those above.
    """
    close = _closer(tile, conjugate, uplo)
    return lambda lo, hi: close(lo // _SQUARE, -(-hi // _SQUARE))


def _closer(tile: Array, conjugate: bool, uplo: Uplo) -> Callable[[int, int], None]:
    tiles = as_parts(whole_rows(as_stack(tile)))
    return partial(_close_bands, tiles, tile.shape[-1], conjugate, SIDES[uplo])
