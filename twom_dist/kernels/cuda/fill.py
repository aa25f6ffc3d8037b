"""The fill of non-finite rows and columns: marks on the device, never waited for."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...typing import Array
from .device import CudaDevice
from .launch import (
    count_matrices,
    fill_grid,
    listed,
    matrix,
    scalar,
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


class CudaFills:
    """Launches of fill.cu."""

    device: CudaDevice

    def find_nonfinite(
        self,
        x: Array,
        y: Array,
        rows: Array,
        columns: Array,
        conjugate: tuple[bool, bool],
    ) -> CudaFill:
        """Mark the elements of ``X Y^T`` that a NaN or an Inf reaches."""
        (*stack, m, k), n = x.shape, y.shape[-2]
        marks = self.device.empty((*stack, m, n), np.uint8)
        if marks.size:
            x, y = listed(x), listed(y)
            args = (
                *(pair(x, y, conjugate), m, n, k, rows, columns, marks),
                *(stack_stride(x), stack_stride(y)),
            )
            grid = fill_grid(m, n, count_matrices(x))
            self.device.launch(
                module_for("fill", x.dtype), "mark_nonfinite", *grid, args
            )
        return CudaFill(marks, rows, columns)

    def apply_nonfinite(
        self, fill: CudaFill, out: Array, alpha: complex, beta: complex, c: Array | None
    ) -> None:
        """Overwrite the marked elements of ``alpha X Y^T + beta c``."""
        m, n = fill.marks.shape[-2:]
        if fill.marks.size == 0:
            return
        out, c = listed(out), None if c is None else listed(c)
        args = (
            *(fill.marks, m, n, fill.rows, fill.columns, scalar(alpha), scalar(beta)),
            *(matrix(c), out, strides(out)[0], stack_stride(c), stack_stride(out)),
        )
        grid = fill_grid(m, n, count_matrices(out))
        self.device.launch(module_for("fill", out.dtype), "fill_nonfinite", *grid, args)


def fill_product(
    device: CudaDevice,
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
    args = (
        *(pair(x, y, conjugate), m, n, k, rows, columns, scalar(alpha), scalar(beta)),
        *(matrix(c), out, *map(stack_stride, (x, y, c))),
    )
    grid = fill_grid(m, n, count_matrices(x))
    device.launch(module_for("fill", x.dtype), "fill_product", *grid, args)


def pair(x: Array, y: Array, conjugate: tuple[bool, bool]) -> tuple[Any, ...]:
    """Describe both operands."""
    first, second = conjugate
    return x, *strides(x), first, y, *strides(y), second
