"""Passes over finished tiles: scalars, mirrors, diagonals; see tile.cu."""

from typing import Any

import numpy as np

from ...typing import Array, Uplo
from .launch import (
    Device,
    closing_args,
    count_matrices,
    listed,
    operand_args,
    over_stack,
    scalar_args,
    square_grid,
    stack_stride,
    strides,
    tall,
    tile_grid,
)
from .sources import module_for


def scale_and_add(
    device: Device,
    x: Array | None,
    alpha: complex,
    beta: complex,
    c: Array | None,
    dtype: Any,
) -> Array:
    """Return alpha x + beta c; a matrix times 0 is not read."""
    some = c if x is None else x
    assert some is not None
    given = np.dtype(dtype)
    # The arguments are of the result's dtype, as the drivers make them.
    assert all(t is None or t.dtype == given for t in (x, c))
    out = device.empty(some.shape, given)
    if out.size:
        some, x, c = tall(some), *(None if t is None else tall(t) for t in (x, c))
        m, n = some.shape
        alpha, beta = (0 if x is None else alpha), (0 if c is None else beta)
        args = (
            *(x, *strides(some if x is None else x), *scalar_args(alpha)),
            *(c, *strides(some if c is None else c), *scalar_args(beta)),
            *(np.int64(m), np.int64(n), out),
        )
        module = module_for("tile", given)
        device.launch(module, "scale_and_add", *tile_grid(m, n), args)
    return out


def mirror_tile(
    device: Device, tile: Array, conjugate: bool, out: Array | None = None
) -> Array:
    """Conjugate-transpose, or transpose."""
    *stack, m, n = tile.shape
    out = device.empty((*stack, n, m), tile.dtype) if out is None else out
    if out.size:
        tile = listed(tile)
        last = np.int32(conjugate), out, stack_stride(tile)
        module = module_for("tile", tile.dtype)
        grid, block = square_grid(m, n)
        grid = over_stack(grid, count_matrices(tile))
        device.launch(module, "mirror_tile", grid, block, (*operand_args(tile), *last))
    return out


def symmetrise_diagonal_tile(
    device: Device, tile: Array, conjugate: bool, uplo: Uplo
) -> Array:
    """Mirror or clear the triangle that is not computed, in place."""
    n = tile.shape[-1]
    if tile.size:
        module = module_for("tile", tile.dtype)
        args = (tile, np.int64(n), *closing_args(conjugate, uplo))
        grid, block = square_grid(n, n)
        grid = over_stack(grid, tile.size // (n * n))
        device.launch(module, "symmetrise_diagonal_tile", grid, block, args)
    return tile
