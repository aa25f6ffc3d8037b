"""Rank-k and rank-2k updates of NumPy arrays: the tiles of one triangle."""

from dataclasses import replace
from typing import Any

import numpy as np

from .eager import cut, find_exponents, tile_views
from .kernels.family import namespace
from .kernels.limits import Update, host_limits
from .tiles import tasks
from .tiles.rank_k import (
    Operand,
    RankSpec,
    computed_cells,
    finish_cell,
    mirror_tile,
    multiply_cell,
    wanted_triangle,
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
    update = Update(spec.halves, spec.two)
    limits = host_limits(shape, update)
    if not product.native:
        limits = load_engine(product).tile_limits(product.system, shape, update)
        product = replace(product, cache_bytes=limits.cache_bytes)
        spec = replace(spec, product=product)
    rows, steps = cut(size, limits.mb), cut(product.k, limits.kb)
    x, z = _operands(a, b, rows, steps, product)
    if len(rows) == 1:
        both = (x[0], x[0]), None if z is None else (z[0], z[0])
        triangle = wanted_triangle((0, 0), spec)
        accumulators = multiply_cell(*both, (0, 0), spec, triangle=triangle)
        return finish_cell(accumulators, *both, (0, 0), spec, c)
    out = namespace(a).zeros((size, size), np.dtype(spec.product.dtype))
    for i, j in computed_cells(len(rows), spec.uplo):
        pair = (x[i], x[j])
        other = None if z is None else (z[i], z[j])
        triangle = wanted_triangle((i, j), spec)
        accumulators = multiply_cell(pair, other, (i, j), spec, triangle=triangle)
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
    views = [tile_views(x, rows, steps, spec.op_a) for x in (a, a if b is None else b)]
    exponents: tuple[list[Any], list[Any]] = ([None] * len(rows), [None] * len(rows))
    if not spec.native and b is None and spec.scaling == "norm":
        whole = tasks.scale_in_one(a, "left", spec)
        exponents = [whole[r] for r in rows], []
    elif not spec.native:
        both = a, a if b is None else b
        exponents = find_exponents(*both, (views[0], views[1]), (rows, rows), spec)
    x = [Operand(*given) for given in zip(views[0], exponents[0], strict=True)]
    if b is None:
        return x, None
    return x, [Operand(*given) for given in zip(views[1], exponents[1], strict=True)]
