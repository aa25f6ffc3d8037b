"""Rank-k and rank-2k updates of NumPy arrays: the tiles of one triangle."""

from dataclasses import replace

import numpy as np

from .eager import find_exponents, tile_views
from .kernels.family import namespace
from .kernels.limits import host_limits
from .tiles import tasks
from .tiles.grid import offsets, split_evenly
from .tiles.rank_k import (
    Operand,
    RankSpec,
    computed_cells,
    finish_cell,
    mirror_tile,
    multiply_cell,
)
from .tiles.spec import ProductSpec, load_engine
from .typing import Array


def update(a: Array, b: Array | None, c: Array | None, spec: RankSpec) -> Array:
    """Compute the update of NumPy arrays of the spec's dtype.

    Parameters
    ----------
    a : (n, k) array, or (k, n)
    b : array like a, or None for rank-k updates
    c : (n, n) array or None
    spec : RankSpec
    """
    size, product = a.shape[0] if spec.product.op_a == "N" else a.shape[1], spec.product
    shape = (size, size, product.k)
    limits = host_limits(shape, update=True, halves=False)
    if not product.native:
        limits = load_engine(product).tile_limits(
            product.system, shape, update=True, halves=spec.halves
        )
        product = replace(product, cache_bytes=limits.cache_bytes)
        spec = replace(spec, product=product)
    rows = [slice(*r) for r in offsets(split_evenly(size, limits.mb))]
    steps = [slice(*r) for r in offsets(split_evenly(product.k, limits.kb))]
    x, z = _operands(a, b, rows, steps, product)
    out = namespace(a).zeros((size, size), np.dtype(spec.product.dtype))
    for i, j in computed_cells(len(rows), spec.uplo):
        pair = (x[i], x[j])
        other = None if z is None else (z[i], z[j])
        accumulators = multiply_cell(pair, other, (i, j), spec)
        c_tile = None if c is None else c[rows[i], rows[j]]
        tile = finish_cell(accumulators, pair, other, (i, j), spec, c_tile)
        out[rows[i], rows[j]] = tile
        if spec.uplo == "full" and i != j:
            out[rows[j], rows[i]] = mirror_tile(tile, spec)
    return out


def _operands(
    a: Array,
    b: Array | None,
    rows: list[slice],
    steps: list[slice],
    spec: ProductSpec,
) -> tuple[list[Operand], list[Operand] | None]:
    """View the tiles of op(A), and of op(B), by rows, with their exponents."""
    exponents: tuple[Array | None, Array | None] = (None, None)
    if not spec.native and b is None and spec.scaling == "norm":
        exponents = (tasks.scale_in_one(a, "left", spec), None)
    elif not spec.native:
        exponents = find_exponents(a, a if b is None else b, spec)

    def operands(x: Array, e: Array | None) -> list[Operand]:
        views = tile_views(x, rows, steps, spec.op_a)
        return [
            Operand(tiles, None if e is None else e[r])
            for tiles, r in zip(views, rows, strict=True)
        ]

    x = operands(a, exponents[0])
    return x, None if b is None else operands(b, exponents[1])
