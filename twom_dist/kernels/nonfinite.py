"""Rows and columns of C that a NaN or an Inf of A or B reaches, on NumPy arrays.

They are masked to zero in the integer path and filled here: with every finite entry
replaced by its sign no sum overflows, so the filled values (Inf with its sign, NaN)
depend neither on the order of summation nor on the tiling.
"""

from dataclasses import dataclass

import numpy as np

from ..moduli import NONFINITE_ROW
from ..typing import Array
from .finish import scale_and_add

# Indices of a matrix in its stack; () of one alone.
Place = tuple[int, ...]


@dataclass(frozen=True)
class MatrixFill:
    """Native values of the affected rows (r, n) and columns (m, c) of a tile."""

    rows: Array
    columns: Array
    row_values: Array
    column_values: Array


@dataclass(frozen=True)
class NativeFill:
    """The fill of each affected matrix of a stack, or of one alone."""

    fills: dict[Place, MatrixFill]

    def plus(self, other: "NativeFill") -> "NativeFill":
        """Add the fill of another panel along k, which affects the same matrices."""
        with np.errstate(invalid="ignore"):
            return NativeFill(
                {
                    place: MatrixFill(
                        own.rows,
                        own.columns,
                        own.row_values + other.fills[place].row_values,
                        own.column_values + other.fills[place].column_values,
                    )
                    for place, own in self.fills.items()
                }
            )


def find_fill(
    x: Array, y: Array, rows: Array, columns: Array, conjugate: tuple[bool, bool]
) -> NativeFill | None:
    """Compute the fill of tile products, or None where all is finite."""
    bad_rows, bad_columns = rows == NONFINITE_ROW, columns == NONFINITE_ROW
    affected = np.argwhere(bad_rows.any(axis=-1) | bad_columns.any(axis=-1))
    if len(affected) == 0:
        return None
    fills = {}
    for place in map(tuple, affected.tolist()):
        reached = np.flatnonzero(bad_rows[place]), np.flatnonzero(bad_columns[place])
        fills[place] = _fill_matrix(x[place], y[place], *reached, conjugate)
    return NativeFill(fills)


def _fill_matrix(
    x: Array, y: Array, rows: Array, columns: Array, conjugate: tuple[bool, bool]
) -> MatrixFill:
    x = np.conj(x) if conjugate[0] else x
    y = np.conj(y) if conjugate[1] else y
    values = _sign_product(x[rows], y), _sign_product(x, y[columns])
    return MatrixFill(rows, columns, *values)


def apply_fill(
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
