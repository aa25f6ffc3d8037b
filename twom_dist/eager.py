"""Products of NumPy arrays, now: the block tasks over views of the matrices."""

from dataclasses import replace

import numpy as np

from .kernels.family import namespace
from .tiles import tasks
from .tiles.grid import offsets, split_evenly
from .tiles.spec import ProductSpec, load_engine
from .typing import Array, Side

__all__ = ["multiply"]


def multiply(a: Array, b: Array, c: Array | None, spec: ProductSpec) -> Array:
    """Compute ``alpha op(A) op(B) + beta C`` of NumPy arrays of the spec's dtype."""
    if spec.native:
        return tasks.product_tile([a], [b], None, None, spec, None, c)
    rows, columns = find_exponents(a, b, spec)
    shape = (len(rows), len(columns), spec.k)
    limits = load_engine(spec).tile_limits(
        spec.system, shape, update=False, halves=False
    )
    spec = replace(spec, cache_bytes=limits.cache_bytes)
    m, n, k = (
        [slice(*r) for r in offsets(split_evenly(size, largest))]
        for size, largest in zip(shape, (limits.mb, limits.nb, limits.kb), strict=True)
    )
    # The views live as long as this list: so do their encoded tiles in the cache.
    a_tiles = tile_views(a, m, k, spec.op_a)
    row_exponents, column_exponents = [rows[i] for i in m], [columns[j] for j in n]
    b_tiles = [[b[_index(spec.op_b, step, j)] for step in k] for j in n]
    if len(m) == len(n) == 1:
        return tasks.product_tile(a_tiles[0], b_tiles[0], rows, columns, spec, None, c)
    out = namespace(a).empty((len(rows), len(columns)), np.dtype(spec.dtype))
    for a_row, e, i in zip(a_tiles, row_exponents, m, strict=True):
        for b_column, f, j in zip(b_tiles, column_exponents, n, strict=True):
            c_tile = None if c is None else c[i, j]
            out[i, j] = tasks.product_tile(a_row, b_column, e, f, spec, None, c_tile)
    return out


def tile_views(
    a: Array, rows: list[slice], steps: list[slice], op: str
) -> list[list[Array]]:
    """View the tiles of op(A), by rows."""
    return [[a[_index(op, i, step)] for step in steps] for i in rows]


def _index(op: str, row: slice, column: slice) -> tuple[slice, slice]:
    """Index of a tile of op(X) in X."""
    return (row, column) if op == "N" else (column, row)


def find_exponents(a: Array, b: Array, spec: ProductSpec) -> tuple[Array, Array]:
    """Scaling exponents of the rows of op(A) and the columns of op(B)."""
    sides: tuple[tuple[Array, Side], ...] = ((a, "left"), (b, "right"))
    if spec.scaling == "norm":
        rows, columns = (tasks.scale_in_one(x, side, spec) for x, side in sides)
        return rows, columns
    largest = [tasks.largest_exponents(x, side, spec) for x, side in sides]
    bounds = tasks.bound_maxima([a], [b], (largest[0], largest[1]), spec)
    rows, columns = (
        tasks.accurate_exponents(
            tasks.scale_in_one(x, side, spec), largest[axis], [bounds[axis]], spec
        )
        for axis, (x, side) in enumerate(sides)
    )
    return rows, columns
