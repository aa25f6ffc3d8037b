"""Rows and columns of C that a NaN or an Inf of A or B reaches, on NumPy arrays.

These rows and columns are masked to zero in the integer path and filled here. With a
NaN they become NaN, in both parts. With an Inf, the terms of infinite entries are
summed: with every finite entry replaced by its sign no sum overflows, so the filled
values (Inf with its sign, NaN) depend neither on the order of summation nor on the
tiling.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..moduli import NAN_ROW, NONFINITE_ROW
from ..typing import Array
from .finish import scale_and_add

Place = tuple[int, ...]  # indices of a matrix in its stack; () of one alone


@dataclass(frozen=True)
class MatrixFill:
    """Values of the rows (r, n) and columns (m, c) of a tile that have an Inf."""

    rows: Array
    columns: Array
    row_values: Array
    column_values: Array


@dataclass(frozen=True)
class NativeFill:
    """The fill of a tile, or of a stack."""

    nan_rows: Array  # (..., m) bool: those that have a NaN
    nan_columns: Array  # (..., n) bool
    # of each matrix with rows or columns that have an Inf and no NaN
    fills: dict[Place, MatrixFill]

    def plus(self, other: "NativeFill") -> "NativeFill":
        """Add the fill of another panel along k, which affects the same matrices."""
        with np.errstate(invalid="ignore"):
            fills = {
                place: MatrixFill(
                    own.rows,
                    own.columns,
                    own.row_values + other.fills[place].row_values,
                    own.column_values + other.fills[place].column_values,
                )
                for place, own in self.fills.items()
            }
        return replace(self, fills=fills)


def find_nonfinite(
    x: Array, y: Array, rows: Array, columns: Array, conjugate: tuple[bool, bool]
) -> NativeFill | None:
    """Compute the fill of tile products, or None where all is finite."""
    if not any(np.count_nonzero(e >= NONFINITE_ROW) for e in (rows, columns)):
        return None
    infinite = rows == NONFINITE_ROW, columns == NONFINITE_ROW
    fills = {}
    for place in np.argwhere(infinite[0].any(axis=-1) | infinite[1].any(axis=-1)):
        own = tuple(place.tolist())
        i, j = (np.flatnonzero(t[own]) for t in infinite)
        # Terms of finite entries do not count beside those of infinite ones.
        some = np.isinf(x[own][i]).any(axis=0) | np.isinf(y[own][j]).any(axis=0)
        left, right = x[own][:, some], y[own][:, some]
        left = np.conj(left) if conjugate[0] else left
        right = np.conj(right) if conjugate[1] else right
        values = _sign_product(left[i], right), _sign_product(left, right[j])
        fills[own] = MatrixFill(i, j, *values)
    return NativeFill(rows == NAN_ROW, columns == NAN_ROW, fills)


def apply_nonfinite(
    fill: NativeFill, out: Array, alpha: complex, beta: complex, c: Array | None
) -> None:
    """Overwrite the affected rows and columns of out."""
    for place, own in fill.fills.items():
        tile, beside = out[place], None if c is None else c[place]
        for where, values in (
            ((own.rows, slice(None)), own.row_values),
            ((slice(None), own.columns), own.column_values),
        ):
            added = None if beside is None else beside[where]
            tile[where] = scale_and_add(values, alpha, beta, added, out.dtype)
    nan = complex(np.nan, np.nan) if np.iscomplexobj(out) else np.nan
    out[fill.nan_rows] = nan
    out.swapaxes(-1, -2)[fill.nan_columns] = nan


def _signs(t: Array) -> Array:
    """Sign of finite entries, non-finite ones as they are; float32."""
    signs: Array = np.where(np.isfinite(t), np.sign(t), t)
    return signs.astype(np.float32)


def _real_product(x: Array, y: Array) -> Array:
    # Two columns at least: a matrix-vector kernel may skip zeros, and so NaN = 0 Inf.
    with np.errstate(invalid="ignore"):
        padded = np.concatenate([y, np.zeros((2, y.shape[1]), y.dtype)])
        stacked = np.concatenate([x, np.zeros((2, x.shape[1]), x.dtype)])
        return (stacked @ padded.T)[: len(x), : len(y)]


def _sign_product(x: Array, y: Array) -> Array:
    if not np.iscomplexobj(x):
        return _real_product(_signs(x), _signs(y))
    xr, xi, yr, yi = (_signs(t) for t in (x.real, x.imag, y.real, y.imag))
    out = np.empty((len(x), len(y)), np.complex64)
    with np.errstate(invalid="ignore"):
        out.real = _real_product(xr, yr) - _real_product(xi, yi)
        out.imag = _real_product(xr, yi) + _real_product(xi, yr)
    return out
