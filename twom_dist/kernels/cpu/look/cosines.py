"""Smallest cosines of the rows of |X| and |Y|, of the matrices of a stack."""

import numpy as np

from ....moduli import NONFINITE_ROW
from ....typing import Array
from ...stack_summary import choose
from ..compiled import kernel
from ..layout import read_only
from ..threads import ranges, run_each
from . import norms
from .dots import multiply_rows


def smallest_cosines(
    x: Array,
    y: Array,
    of_x: tuple[Array, Array],
    of_y: tuple[Array, Array],
    bits: int,
    places: Array,
) -> Array:
    """Multiply all pairs of rows, of norm 1, and keep the smallest."""
    twins, count = x is y, len(places)
    left = _unit_rows(x, of_x, bits, places)
    right = left if twins else _unit_rows(y, of_y, bits, places)
    given = *left, *right, twins
    out = np.ones(count, np.float32)
    each = x.shape[1] * y.shape[1] * x.shape[2] // 50
    run_each(lambda r: _smallest(*given, *r, out), ranges(count, each=each))
    return out


def _unit_rows(
    x: Array, known: tuple[Array, Array], bits: int, places: Array
) -> tuple[Array, Array]:
    """Divide magnitudes by the norms of their rows; tell rows that have any."""
    x, largest, sums = (choose(t, places) for t in (x, *known))
    rows, one, two = _scaled(x, largest, sums, bits)
    out = np.empty(rows.shape, np.float32)
    kernel = _divide_real if x.dtype.kind == "f" else _divide_complex
    run_each(
        lambda r: kernel(rows, one, two, *r, out),
        ranges(len(rows), smallest=16, each=x.shape[-1]),
    )
    return out.reshape(x.shape), (one != 0).reshape(x.shape[:-1])


def _scaled(
    x: Array, largest: Array, sums: Array, bits: int
) -> tuple[Array, Array, Array]:
    """Return all rows, and two factors that make each of norm 1; zeros for none."""
    sentinel = norms.is_sentinel(largest)
    one, two = norms.power_factors(np.where(sentinel, NONFINITE_ROW, -largest))
    one *= 2.0**bits / np.sqrt(np.where(sentinel, 1, sums))
    rows = np.ascontiguousarray(x, x.dtype.newbyteorder("="))
    flat = read_only(rows.reshape(-1, x.shape[-1]))
    return flat, one.reshape(-1), two.reshape(-1)


@kernel
def _divide_complex(x, factor1, factor2, lo, hi, out):  # type: ignore[no-untyped-def]
    """Take the magnitudes of x[rows, k] times the factors of their rows."""
    for i in range(lo, hi):
        f1, f2, source, row = factor1[i], factor2[i], x[i], out[i]
        if f1 == 0.0:
            row[:] = 0.0
            continue
        for t in range(row.size):
            re = np.float64(source[t].real) * f1 * f2
            im = np.float64(source[t].imag) * f1 * f2
            row[t] = np.sqrt(np.float32(re * re + im * im))


@kernel
def _divide_real(x, factor1, factor2, lo, hi, out):  # type: ignore[no-untyped-def]
    """Do the same for real numbers."""
    for i in range(lo, hi):
        f1, f2, source, row = factor1[i], factor2[i], x[i], out[i]
        if f1 == 0.0:
            row[:] = 0.0
            continue
        for t in range(row.size):
            row[t] = np.float32(np.abs(np.float64(source[t])) * f1 * f2)


@kernel
def _smallest(left, of_left, right, of_right, twins, lo, hi, out):  # type: ignore[no-untyped-def]
    """Keep the smallest product of two rows of each matrix, of 4 x 2 at a time."""
    for matrix in range(lo, hi):
        x, y, smallest = left[matrix], right[matrix], out[matrix]
        rows = np.flatnonzero(of_left[matrix])
        columns = np.flatnonzero(of_right[matrix])
        m, n = rows.size, columns.size
        for i in range(0, m, 4):
            # Past the last row and column there they are again.
            a, b = x[rows[i]], x[rows[min(i + 1, m - 1)]]
            c, d = x[rows[min(i + 2, m - 1)]], x[rows[min(i + 3, m - 1)]]
            for j in range(i if twins else 0, n, 2):
                p, q = y[columns[j]], y[columns[min(j + 1, n - 1)]]
                s = multiply_rows(a, b, c, d, p, q)
                smallest = min(smallest, min(s[:4]), min(s[4:]))
        out[matrix] = smallest
