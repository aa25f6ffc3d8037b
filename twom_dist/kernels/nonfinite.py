"""Rows and columns of C that a NaN or an Inf of A or B reaches, on NumPy arrays.

They are masked to zero in the integer path and filled here: with every finite entry
replaced by its sign no sum overflows, so the filled values (Inf with its sign, NaN)
depend neither on the order of summation nor on the tiling.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..moduli import NONFINITE_ROW
from ..typing import Array
from .finish import scale_and_add


@dataclass(frozen=True)
class NativeFill:
    """Native values of the affected rows (r, n) and columns (m, c) of a tile."""

    rows: Array
    columns: Array
    row_values: Array
    column_values: Array

    def plus(self, other: "NativeFill") -> "NativeFill":
        """Add the fill of another panel along k."""
        with np.errstate(invalid="ignore"):
            return replace(
                self,
                row_values=self.row_values + other.row_values,
                column_values=self.column_values + other.column_values,
            )


def find_fill(
    x: Array, y: Array, rows: Array, columns: Array, conjugate: tuple[bool, bool]
) -> NativeFill | None:
    """Compute the fill of one tile product, or None where all is finite."""
    bad_rows = np.flatnonzero(rows == NONFINITE_ROW)
    bad_columns = np.flatnonzero(columns == NONFINITE_ROW)
    if not (bad_rows.size or bad_columns.size):
        return None
    x = np.conj(x) if conjugate[0] else x
    y = np.conj(y) if conjugate[1] else y
    return NativeFill(
        bad_rows,
        bad_columns,
        _sign_product(x[bad_rows], y),
        _sign_product(x, y[bad_columns]),
    )


def apply_fill(
    fill: NativeFill, out: Array, alpha: complex, beta: complex, c: Array | None
) -> None:
    """Overwrite the affected rows and columns of out."""
    for where, values in (
        ((fill.rows, slice(None)), fill.row_values),
        ((slice(None), fill.columns), fill.column_values),
    ):
        added = None if c is None else c[where]
        out[where] = scale_and_add(values, alpha, beta, added, out.dtype)


def _signs(t: Array) -> Array:
    """Sign of finite entries, non-finite ones as they are; float64."""
    signs: Array = np.where(np.isfinite(t), np.sign(t), t)
    return signs.astype(np.float64)


def _real_product(x: Array, y: Array) -> Array:
    # Two columns at least: a matrix-vector kernel may skip zeros, and so NaN = 0 Inf.
    with np.errstate(invalid="ignore"):
        padded = np.concatenate([y, np.zeros((2, y.shape[1]))])
        stacked = np.concatenate([x, np.zeros((2, x.shape[1]))])
        return (stacked @ padded.T)[: len(x), : len(y)]


def _sign_product(x: Array, y: Array) -> Array:
    """X Y^T of the signs."""
    if not np.iscomplexobj(x):
        return _real_product(_signs(x), _signs(y))
    xr, xi, yr, yi = (_signs(t) for t in (x.real, x.imag, y.real, y.imag))
    out = np.empty((len(x), len(y)), np.complex128)
    with np.errstate(invalid="ignore"):
        out.real = _real_product(xr, yr) - _real_product(xi, yi)
        out.imag = _real_product(xr, yi) + _real_product(xi, yr)
    return out
