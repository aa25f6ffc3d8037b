"""Products of NumPy arrays, now: the block tasks over views of the matrices."""

from dataclasses import replace

import numpy as np

from .kernels.family import namespace
from .tiles import tasks
from .tiles.grid import offsets, split_evenly
from .tiles.spec import ProductSpec, as_rows, load_engine
from .typing import Array, Side

__all__ = ["multiply"]


Slices = list[slice]


def multiply(a: Array, b: Array, c: Array | None, spec: ProductSpec) -> Array:
    """Compute ``alpha op(A) op(B) + beta C`` of arrays of the spec's dtype."""
    if spec.native:
        return tasks.product_tile([a], [b], None, None, spec, None, c)
    shape = (
        as_rows(a, "left", spec.op_a).shape[0],
        *as_rows(b, "right", spec.op_b).shape,
    )
    limits = load_engine(spec).tile_limits(spec.system, shape)
    m, n, k = (
        cut(size, largest)
        for size, largest in zip(shape, (limits.mb, limits.nb, limits.kb), strict=True)
    )
    # Of one tile nothing is encoded twice: planes go before the tile is decoded.
    alone = len(m) == len(n) == 1
    spec = replace(spec, cache_bytes=0 if alone else limits.cache_bytes)
    # The views live as long as these lists: so do their encoded tiles in the cache.
    a_tiles = tile_views(a, m, k, spec.op_a)
    b_tiles = tile_views(b, n, k, "T" if spec.op_b == "N" else "N")
    rows, columns = find_exponents(a, b, (a_tiles, b_tiles), (m, n), spec)
    if alone:
        first = rows[0], columns[0]
        return tasks.product_tile(a_tiles[0], b_tiles[0], *first, spec, None, c)
    out = namespace(a).empty(shape[:2], np.dtype(spec.dtype))
    for a_row, e, i in zip(a_tiles, rows, m, strict=True):
        for b_column, f, j in zip(b_tiles, columns, n, strict=True):
            c_tile = None if c is None else c[i, j]
            out[i, j] = tasks.product_tile(a_row, b_column, e, f, spec, None, c_tile)
    return out


def cut(size: int, largest: int) -> Slices:
    """Cut a dimension into even pieces."""
    return [slice(*r) for r in offsets(split_evenly(size, largest))]


def tile_views(a: Array, rows: Slices, steps: Slices, op: str) -> list[list[Array]]:
    """View the tiles of op(A), by rows."""
    return [[a[(i, step) if op == "N" else (step, i)] for step in steps] for i in rows]


def find_exponents(
    a: Array,
    b: Array,
    tiles: tuple[list[list[Array]], list[list[Array]]],
    rows: tuple[Slices, Slices],
    spec: ProductSpec,
) -> tuple[list[Array], list[Array]]:
    """Scaling exponents of each row of tiles of op(A), and of op(B)^T.

    Parameters
    ----------
    a, b : arrays
    tiles : (list, list)
        Of both, by rows.
    rows : (list of slice, list of slice)
        Of each row of tiles.
    spec : ProductSpec
    """
    sides: tuple[tuple[Side, Array, Slices], ...]
    sides = (("left", a, rows[0]), ("right", b, rows[1]))
    norm = [_cut_rows(tasks.scale_in_one(x, side, spec), r) for side, x, r in sides]
    if spec.scaling == "norm":
        return norm[0], norm[1]
    largest = [
        _cut_rows(tasks.largest_exponents(x, side, spec), r) for side, x, r in sides
    ]
    bounds = [
        [
            tasks.bound_maxima(x, y, (e, f), spec)
            for y, f in zip(tiles[1], largest[1], strict=True)
        ]
        for x, e in zip(tiles[0], largest[0], strict=True)
    ]
    of_rows = [[b[0] for b in row] for row in bounds]
    of_columns = [[b[1] for b in column] for column in zip(*bounds, strict=True)]
    left, right = (
        [tasks.accurate_exponents(*given, spec) for given in zip(*three, strict=True)]
        for three in zip(norm, largest, (of_rows, of_columns), strict=True)
    )
    return left, right


def _cut_rows(x: Array, rows: Slices) -> list[Array]:
    return [x[r] for r in rows]
