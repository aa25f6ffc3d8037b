"""Passes over entries: sums of their squares and magnitudes."""

import numpy as np

from ..jit import inner, kernel


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
                column = columns[t] if shifted else 1.0
                re, im = row[2 * t] * column, row[2 * t + 1] * column
                p, q = _add_entry(re, im, f1, f2)
                square += p
                total += q
        else:
            for t in range(row.size):
                column = columns[t] if shifted else 1.0
                p, q = _add_entry(row[t] * column, 0.0, f1, f2)
                square += p
                total += q
        squares[i], totals[i] = square, total


@kernel
def row_sums_outer(x, factor1, factor2, columns, parts, lo, hi, squares, totals):  # type: ignore[no-untyped-def]
    """Sum the same over t of rows lo..hi of x[t, rows * parts]."""
    shifted = columns.size > 0
    for t in range(len(x)):
        row = x[t, lo * parts : hi * parts]
        column = columns[t] if shifted else 1.0
        if parts == 2:
            for j in range(squares.size):
                re, im = row[2 * j], row[2 * j + 1]
                if shifted:
                    re, im = re * column, im * column
                p, q = _add_entry(re, im, factor1[j], factor2[j])
                squares[j] += p
                totals[j] += q
        else:
            for j in range(squares.size):
                re = row[j] * column if shifted else row[j]
                p, q = _add_entry(re, 0.0, factor1[j], factor2[j])
                squares[j] += p
                totals[j] += q
