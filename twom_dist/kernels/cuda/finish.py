"""Passes over finished tiles: scalars, mirrors, diagonals; see tile.cu."""

from math import prod
from typing import Any

import numpy as np

from ...typing import Array, Uplo
from .device import CudaDevice
from .launch import (
    count_matrices,
    listed,
    matrix,
    scalar,
    square_grid,
    stack_stride,
    strides,
    tile_grid,
)
from .sources import module_for


class CudaFinish:
    """Launches of tile.cu."""

    device: CudaDevice

    def scale_and_add(
        self,
        x: Array | None,
        alpha: complex,
        beta: complex,
        c: Array | None,
        dtype: Any,
    ) -> Array:
        """Return alpha x + beta c by one kernel; a matrix times 0 is not read."""
        some = c if x is None else x
        assert some is not None
        given = np.dtype(dtype)
        # The arguments are of the result's dtype, as the drivers make them.
        assert all(t is None or t.dtype == given for t in (x, c))
        out = self.device.empty(some.shape, given)
        if out.size:
            m, n = prod(some.shape[:-1]), some.shape[-1]
            # A stack is the rows of all its matrices: a view, or a copy.
            x, c = (None if t is None else t.reshape(m, n) for t in (x, c))
            alpha, beta = (0 if x is None else alpha), (0 if c is None else beta)
            args = matrix(x), scalar(alpha), matrix(c), scalar(beta), m, n, out
            module = module_for("tile", given)
            self.device.launch(module, "scale_and_add", *tile_grid(m, n), args)
        return out

    def mirror_tile(
        self, tile: Array, *, conjugate: bool, out: Array | None = None
    ) -> Array:
        *stack, m, n = tile.shape
        out = self.device.empty((*stack, n, m), tile.dtype) if out is None else out
        if out.size:
            tile = listed(tile)
            args = tile, m, n, *strides(tile), conjugate, out, stack_stride(tile)
            grid, module = square_grid(m, n, prod(stack)), module_for("tile", out.dtype)
            self.device.launch(module, "mirror_tile", *grid, args)
        return out

    def symmetrise_diagonal_tile(
        self, tile: Array, *, conjugate: bool, uplo: Uplo
    ) -> Array:
        n = tile.shape[-1]
        if tile.size:
            args = tile, n, conjugate, uplo == "upper", uplo == "full"
            grid = square_grid(n, n, count_matrices(tile))
            module = module_for("tile", tile.dtype)
            self.device.launch(module, "symmetrise_diagonal_tile", *grid, args)
        return tile
