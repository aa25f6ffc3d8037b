"""Tiles: decoded from residues, filled where not finite, and finished.

Non-finite rows and columns are marked on the device, so the host does not wait.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from .device import CudaDevice
from .launch import (
    as_stack,
    count_matrices,
    matrix,
    scalar,
    square_grid,
    stack_stride,
    strides,
    tile_grid,
    triangle_arg,
)
from .samples import decode_samples
from .sources import module_for
from .tables import decode_elements
from .tuning import tuning_for

# Squares of decode_and_fill.cu; residues of a modulus are SIDE rows of PITCH words.
_SIDE, _PITCH = 32, 9
# Squares of fill.cu, 16 elements a thread. On an H200 two kernels that found nothing
# to fill took 107 us at n = 4096 with one element a thread, and 63 with 32.
_FILLED = 64


@dataclass(frozen=True)
class CudaFill:
    """Which of +Inf, -Inf and NaN occur in each element that is reached."""

    marks: Array  # (..., m, n) uint8: anything where the row and the column are finite
    rows: Array  # (..., m) int32: scaling exponents
    columns: Array  # (..., n) int32

    def __sizeof__(self) -> int:
        return int(self.marks.nbytes)

    def plus(self, other: "CudaFill") -> "CudaFill":
        """Add these marks to those of another panel along k, whose memory they take.

        What came before may belong to dask.
        """
        marks = np.bitwise_or(self.marks, other.marks, out=other.marks)
        return replace(self, marks=marks)


class CudaDecode:
    """Launches of decode.cu, fill.cu and tile.cu."""

    device: CudaDevice

    def decode(
        self,
        residues: Array,
        rows: Array,
        columns: Array,
        system: ResidueSystem,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: Array | None = None,
        triangle: Uplo = "full",
        components: int = 1,
        out: Array | None = None,
    ) -> Array:
        front = () if components == 1 else (components,)
        if out is None:
            shape = *rows.shape, columns.shape[-1]
            out = self.device.empty((*front, *shape), dtype)
        c = None if c is None else as_stack(c)
        if out.size and system.wraps:
            of_sums = residues, system, out, alpha, beta, c, triangle
            decode_samples(self.device, *of_sums)
        elif out.size:
            x = residues.reshape(len(residues), -1, *residues.shape[-2:])
            (_, count, m, _), n = x.shape, out.shape[-1]
            args = (
                *(x, x.strides[2], x.strides[0], m, n, rows, columns, scalar(alpha)),
                *(scalar(beta), matrix(c), out, triangle_arg(triangle)),
            )
            integer = tuning_for(self.device.capability()).integer_sums
            kind = out.dtype, system, components
            grid = tile_grid(m, n, decode_elements(system), count)
            module = module_for("decode", *kind, integer=integer)
            self.device.launch(module, "decode", *grid, args)
        return out

    def find_nonfinite(
        self,
        x: Array,
        y: Array,
        rows: Array,
        columns: Array,
        conjugate: tuple[bool, bool],
    ) -> CudaFill:
        (*stack, m, k), n = x.shape, y.shape[-2]
        marks = self.device.empty((*stack, m, n), np.uint8)
        if marks.size:
            x, y = as_stack(x), as_stack(y)
            args = *pair(x, y, conjugate, rows, columns), k, marks
            grid = square_grid(m, n, count_matrices(x), _FILLED)
            module = module_for("fill", x.dtype)
            self.device.launch(module, "mark_nonfinite", *grid, args)
        return CudaFill(marks, rows, columns)

    def apply_nonfinite(
        self, fill: CudaFill, out: Array, alpha: complex, beta: complex, c: Array | None
    ) -> None:
        m, n = fill.marks.shape[-2:]
        if fill.marks.size == 0:
            return
        out, c = as_stack(out), None if c is None else as_stack(c)
        args = (
            *(fill.marks, m, n, fill.rows, fill.columns, scalar(alpha), scalar(beta)),
            *(matrix(c), out, strides(out)[0], stack_stride(out)),
        )
        grid = square_grid(m, n, count_matrices(out), _FILLED)
        self.device.launch(module_for("fill", out.dtype), "fill_nonfinite", *grid, args)

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
            tile = as_stack(tile)
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


def decode_and_fill(
    device: CudaDevice,
    x: Array,
    y: Array,
    conjugate: tuple[bool, bool],
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
    uplo: Uplo | None,
    hermitian: bool,
    places: Array | None,
) -> None:
    """Write ``alpha X Y^T + beta c``, filled; or a triangle, closed as `uplo` says.

    Of operands that hold all of k, and residues of all products, or of one for each 2M
    modulus, if `hermitian`.
    """
    (m, k), n = x.shape[-2:], y.shape[-2]
    mirrored = len(residues) < system.num_products
    triangle = triangle_arg("lower" if uplo == "full" else uplo or "full")
    args = (
        *(*pair(x, y, conjugate, rows, columns), k, residues, residues.strides[-2]),
        *(residues.strides[0], scalar(alpha), scalar(beta), matrix(c)),
        *(out, triangle, mirrored, hermitian, uplo == "full", places),
    )
    integer = tuning_for(device.capability()).integer_sums
    module = module_for("decode_and_fill", out.dtype, system, integer=integer)
    grid = square_grid(m, n, count_matrices(residues[0]), _SIDE)
    shared = 4 * _SIDE * _PITCH * system.num_moduli if mirrored else 0
    device.launch(module, "decode_and_fill", *grid, args, shared)


def pair(
    x: Array, y: Array, conjugate: tuple[bool, bool], rows: Array, columns: Array
) -> list[tuple[Any, ...]]:
    """Describe both operands, with the exponents of their rows."""
    return [
        (t, t.shape[-2], *strides(t), conjugated, exponents, stack_stride(t))
        for t, conjugated, exponents in zip(
            (x, y), conjugate, (rows, columns), strict=True
        )
    ]
