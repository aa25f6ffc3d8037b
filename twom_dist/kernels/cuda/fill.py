"""The fill of non-finite rows and columns: marks on the device, never waited for."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...typing import Array
from .launch import Device, scalar_args, sparse_grid, strides
from .sources import module_for


@dataclass(frozen=True)
class CudaFill:
    """Which of +Inf, -Inf and NaN occur in each element that is reached.

    Attributes
    ----------
    marks : (m, n) uint8
        Anything where neither the row nor the column is `NONFINITE_ROW`.
    rows, columns : (m,), (n,) int32
        Scaling exponents.
    """

    marks: Array
    rows: Array
    columns: Array

    def __sizeof__(self) -> int:
        return int(self.marks.nbytes)

    def plus(self, other: "CudaFill") -> "CudaFill":
        """Add the marks of another panel along k."""
        return replace(self, marks=np.bitwise_or(self.marks, other.marks))


def mark_nonfinite(
    device: Device,
    x: Array,
    y: Array,
    rows: Array,
    columns: Array,
    conjugate: tuple[bool, bool],
) -> CudaFill:
    """Mark what a NaN or an Inf makes of each element of ``X Y^T``."""
    (m, k), n = x.shape, y.shape[0]
    marks = device.empty((m, n), np.uint8)
    if 0 not in (m, n):
        args = (
            *(x, *strides(x), np.int32(conjugate[0])),
            *(y, *strides(y), np.int32(conjugate[1])),
            *(np.int64(m), np.int64(n), np.int64(k), rows, columns, marks),
        )
        module = module_for("fill", x.dtype)
        # Few rows a thread: each element of a column that is reached sums over k.
        device.launch(module, "mark_nonfinite", *sparse_grid(m, n, 4), args)
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
    m, n = fill.marks.shape
    if 0 in (m, n):
        return
    args: tuple[Any, ...] = (
        *(fill.marks, np.int64(m), np.int64(n), fill.rows, fill.columns),
        *(*scalar_args(alpha), *scalar_args(beta)),
        *(c, *strides(out if c is None else c), out, strides(out)[0]),
    )
    module = module_for("fill", out.dtype)
    device.launch(module, "fill_nonfinite", *sparse_grid(m, n, 32), args)
