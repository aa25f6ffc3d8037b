"""Passes over entries: sums of squares and magnitudes, and magnitudes."""

import numpy as np

from ..compiled import inner, kernel
from .norms import bits_of, relate

# Rows and columns whose magnitudes are found together where rows lie across memory.
_SQUARE = 64


@inner
def _add_entry(re, im, f1, f2):  # type: ignore[no-untyped-def]
    """Return the squares that an entry adds, and the magnitude."""
    x, y = np.abs(np.float64(re)), np.abs(np.float64(im))
    up, across = np.ceil(x * f1 * f2), np.ceil(y * f1 * f2)
    if up == 0.0 and x != 0.0:
        up = 1.0
    if across == 0.0 and y != 0.0:
        across = 1.0
    # Below 2^41, and exact: no root is rounded up to an integer.
    root = np.int32(np.sqrt(up * up + across * across))
    p, q = np.int64(np.int32(up)), np.int64(np.int32(across))
    return p * p + q * q, max(root - 2, 0)


@kernel
def row_sums_inner(x, factor1, factor2, columns, parts, lo, hi, squares, totals):  # type: ignore[no-untyped-def]
    """Sum squares and magnitudes of the entries along x[rows, parts * t].

    `columns`: what each t is multiplied by before, or nothing.
    """
    shifted = columns.size > 0
    for i in range(lo, hi):
        row, f1, f2 = x[i], factor1[i], factor2[i]
        square, total = np.int64(0), np.int64(0)
        if parts == 2:
            for t in range(row.size // 2):
                re, im = row[2 * t], row[2 * t + 1]
                if shifted:
                    re, im = re * columns[t], im * columns[t]
                p, q = _add_entry(re, im, f1, f2)
                square += p
                total += q
        else:
            for t in range(row.size):
                re = row[t]
                if shifted:
                    re = re * columns[t]
                p, q = _add_entry(re, 0.0, f1, f2)
                square += p
                total += q
        squares[i], totals[i] = square, total


@kernel
def row_sums_outer(x, factor1, factor2, columns, parts, lo, hi, squares, totals):  # type: ignore[no-untyped-def]
    """Sum the same over k of x[matrices, k, rows * parts]; lo..hi count rows."""
    width, shifted = x.shape[2] // parts, columns.size > 0
    for matrix in range(lo // width, -(-hi // width)):
        start = matrix * width
        first, last = max(lo - start, 0), min(hi - start, width)
        own = slice(start + first, start + last)
        f1, f2, square, total = factor1[own], factor2[own], squares[own], totals[own]
        for t in range(x.shape[1]):
            row = x[matrix, t, first * parts : last * parts]
            column = columns[t] if shifted else 1.0
            if parts == 2:
                for j in range(f1.size):
                    re, im = row[2 * j], row[2 * j + 1]
                    if shifted:
                        re, im = re * column, im * column
                    p, q = _add_entry(re, im, f1[j], f2[j])
                    square[j] += p
                    total[j] += q
            else:
                for j in range(f1.size):
                    re = row[j]
                    if shifted:
                        re = re * column
                    p, q = _add_entry(re, 0.0, f1[j], f2[j])
                    square[j] += p
                    total[j] += q


@inner
def _magnitude(re, im, column, f1, f2):  # type: ignore[no-untyped-def]
    """Return the leading half of the float32 that is nearest to a magnitude."""
    x, y = np.float64(re) * column, np.float64(im) * column
    some = (x != 0.0) | (y != 0.0)
    x, y = x * f1 * f2, y * f1 * f2
    value = np.float32(max(np.sqrt(x * x + y * y), 2.0**-126))
    return np.uint16(bits_of(value if some and f1 != 0.0 else np.float32(0)) >> 16)


@kernel
def relative_magnitudes(x, across, columns, largest, lo, hi, out):  # type: ignore[no-untyped-def]
    """Find out[i, j], the magnitudes of entries relative to their rows, of rows lo..hi.

    x[i, j, part], or x[j, i, part] if `across`; columns: factors of the entries of each
    column, applied first, or none.
    """
    shifted, parts = columns.size > 0, x.shape[2]
    factor1, factor2 = np.empty((2, largest.size))
    relate(largest[lo:hi], 0, factor1[lo:hi], factor2[lo:hi])
    if not across:
        for i in range(lo, hi):
            row, to, f1, f2 = x[i], out[i], factor1[i], factor2[i]
            for j in range(to.size):
                column = columns[j] if shifted else 1.0
                re, im = row[j, 0], row[j, 1] if parts == 2 else 0.0
                to[j] = _magnitude(re, im, column, f1, f2)
        return
    # By squares: either reads or writes go from row to row.
    square = np.empty((_SQUARE, _SQUARE), np.uint16)
    for start in range(lo, hi, _SQUARE):
        rows = min(_SQUARE, hi - start)
        f1, f2 = factor1[start : start + rows], factor2[start : start + rows]
        for first in range(0, out.shape[1], _SQUARE):
            count = min(_SQUARE, out.shape[1] - first)
            for j in range(count):
                row, to = x[first + j, start : start + rows], square[j]
                column = columns[first + j] if shifted else 1.0
                for i in range(rows):
                    re, im = row[i, 0], row[i, 1] if parts == 2 else 0.0
                    to[i] = _magnitude(re, im, column, f1[i], f2[i])
            for i in range(rows):
                to = out[start + i]
                for j in range(count):
                    to[first + j] = square[j, i]
