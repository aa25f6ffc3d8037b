"""The fill of non-finite rows and columns: marks on the device, never waited for."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...typing import Array
from .launch import (
    Device,
    count_matrices,
    fill_grid,
    flag_args,
    listed,
    over_stack,
    scalar_args,
    size_args,
    stack_stride,
    strides,
)
from .sources import module_for


@dataclass(frozen=True)
class CudaFill:
    """Which of +Inf, -Inf and NaN occur in each element that is reached.

    Attributes
    ----------
    marks : (..., m, n) uint8
        Anything where the row and the column are finite.
    rows, columns : (..., m), (..., n) int32
        Scaling exponents.
    """

    marks: Array
    rows: Array
    columns: Array

    def __sizeof__(self) -> int:
        return int(self.marks.nbytes)

    def plus(self, other: "CudaFill") -> "CudaFill":
        """Add these marks to those of another panel along k, whose memory they take.

        What came before may belong to dask.
        """
        marks = np.bitwise_or(self.marks, other.marks, out=other.marks)
        return replace(self, marks=marks)


def mark_nonfinite(
    device: Device,
    x: Array,
    y: Array,
    rows: Array,
    columns: Array,
    conjugate: tuple[bool, bool],
) -> CudaFill:
    """Mark the elements of ``X Y^T`` that a NaN or an Inf reaches."""
    (*stack, m, k), n = x.shape, y.shape[-2]
    marks = device.empty((*stack, m, n), np.uint8)
    if marks.size:
        x, y = listed(x), listed(y)
        args = (
            *pair_args(x, y, conjugate),
            *(*size_args(m, n, k), rows, columns, marks),
            *(stack_stride(x), stack_stride(y)),
        )
        module = module_for("fill", x.dtype)
        grid, block = fill_grid(m, n)
        grid = over_stack(grid, count_matrices(x))
        device.launch(module, "mark_nonfinite", grid, block, args)
    return CudaFill(marks, rows, columns)


def fill_nonfinite(
    device: Device,
    fill: CudaFill,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
) -> None:
    """Overwrite the marked elements of ``alpha X Y^T + beta c``."""
    m, n = fill.marks.shape[-2:]
    if fill.marks.size == 0:
        return
    out, c = listed(out), None if c is None else listed(c)
    beside = out if c is None else c
    args: tuple[Any, ...] = (
        *(fill.marks, np.int64(m), np.int64(n), fill.rows, fill.columns),
        *(*scalar_args(alpha), *scalar_args(beta)),
        *(c, *strides(beside), out, strides(out)[0]),
        *(stack_stride(beside), stack_stride(out)),
    )
    module = module_for("fill", out.dtype)
    grid, block = fill_grid(m, n)
    grid = over_stack(grid, count_matrices(out))
    device.launch(module, "fill_nonfinite", grid, block, args)


def fill_product(
    device: Device,
    x: Array,
    y: Array,
    rows: Array,
    columns: Array,
    conjugate: tuple[bool, bool],
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
) -> None:
    """Mark and overwrite at once, for operands that hold all of k."""
    (m, k), n = x.shape[-2:], y.shape[-2]
    beside = out if c is None else c
    args = (
        *pair_args(x, y, conjugate),
        *(*size_args(m, n, k), rows, columns),
        *(*scalar_args(alpha), *scalar_args(beta)),
        *(c, *strides(beside), out, *map(stack_stride, (x, y, beside))),
    )
    module = module_for("fill", x.dtype)
    grid, block = fill_grid(m, n)
    grid = over_stack(grid, count_matrices(x))
    device.launch(module, "fill_product", grid, block, args)


def pair_args(x: Array, y: Array, conjugate: tuple[bool, bool]) -> tuple[Any, ...]:
    """List the arguments that describe both operands."""
    first, second = flag_args(*conjugate)
    return x, *strides(x), first, y, *strides(y), second
