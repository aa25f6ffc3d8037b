"""Octaves of entries below the largest of their rows, and their (min, +) product."""

import numpy as np

from ....moduli import NONFINITE_ROW, ZERO_ROW
from ....typing import Array
from ...statistics import COUNTED, FAR, FURTHEST, NONE
from ..compiled import inner, kernel
from ..layout import list_entries, read_only, tall
from ..threads import ranges, run_each
from ..units import take_widest
from .norms import MASKS, NO_EXPONENT, bits_of, column_factors

# Rows and columns that are turned together where rows lie across memory; and rows whose
# octaves are found together there.
_SQUARE, _WIDTH = 64, 512
# Columns, and terms of each, of Y^T that stay in L2 while all rows of X meet them.
_COLUMNS, _TERMS = 2048, 64
_ENDS = np.array(COUNTED, np.uint8)


def octaves(x: Array, largest: Array, shifts: Array | None = None) -> Array:
    """Find the octaves of entries below the largest of their rows."""
    entries, across = list_entries(x)
    out = np.empty(x.shape, np.uint8)
    flat = tall(out)
    real, info = entries.dtype, np.finfo(entries.dtype)
    (mask,) = MASKS[real.char]
    # Exponents as numbers store them; none in rows that have no largest.
    e = largest.reshape(-1)
    fields = e.astype(mask.dtype) - info.minexp
    fields[(e == ZERO_ROW) | (e >= NONFINITE_ROW)] = NO_EXPONENT
    # Rows that subnormal numbers count in are raised above these, exactly.
    low, up = fields <= FURTHEST, info.nmant + 1
    fields[low & (fields != NO_EXPONENT)] += up
    ups = np.where(low, real.type(2.0**up), real.type(1))
    form = mask, mask.dtype.type(info.nmant)
    given = entries, across, column_factors(shifts, 1, real), fields, ups, *form
    least = _WIDTH if across else 16
    run_each(
        lambda r: _octaves(*given, *r, flat),
        ranges(len(flat), smallest=least, each=x.shape[-1]),
    )
    return out


@inner
def _octave(re, im, column, up, field, mask, shift):  # type: ignore[no-untyped-def]
    """Return the octave of one entry, whose products with the factors are exact."""
    one = bits_of(re * column * up) & mask
    two = bits_of(im * column * up) & mask
    both = one if one > two else two
    below = field - (both >> shift)
    below = below if below < FURTHEST else FAR
    return np.uint8(below if both != 0 and field != NO_EXPONENT else NONE)


@kernel
def _octaves(x, across, columns, fields, ups, mask, shift, lo, hi, out):  # type: ignore[no-untyped-def]
    """Find out[i], of rows lo..hi of all matrices of x[matrix, row, t, part].

    Or x[matrix, t, row, part] if `across`; columns, ups: what each t and each row is
    multiplied by before; no columns if none is.
    """
    take_widest()
    shifted, parts = columns.size > 0, x.shape[3]
    one = x.dtype.type(1)
    rows = x.shape[2] if across else x.shape[1]
    if not across:
        for i in range(lo, hi):
            row, to = x[i // rows, i % rows], out[i]
            field, up = fields[i], ups[i]
            if parts == 2 and not shifted:
                for t in range(to.size):
                    to[t] = _octave(row[t, 0], row[t, 1], one, up, field, mask, shift)
            else:
                for t in range(to.size):
                    column = columns[t] if shifted else one
                    im = row[t, parts - 1]
                    to[t] = _octave(row[t, 0], im, column, up, field, mask, shift)
        return
    # By parts: either reads or writes go from row to row.
    part = np.empty((_SQUARE, _WIDTH), np.uint8)
    for matrix in range(lo // rows, -(-hi // rows)):
        start = matrix * rows
        for first in range(max(lo - start, 0), min(hi - start, rows), _WIDTH):
            count = min(_WIDTH, min(hi - start, rows) - first)
            here = slice(start + first, start + first + count)
            for begin in range(0, out.shape[1], _SQUARE):
                terms = min(_SQUARE, out.shape[1] - begin)
                for t in range(terms):
                    row = x[matrix, begin + t, first : first + count]
                    column = columns[begin + t] if shifted else one
                    given = column, ups[here], fields[here], mask, shift
                    _octaves_across(row, *given, part[t, :count])
                for i in range(count):
                    to = out[start + first + i, begin : begin + terms]
                    for t in range(terms):
                        to[t] = part[t, i]


@inner
def _octaves_across(row, column, ups, fields, mask, shift, out):  # type: ignore[no-untyped-def]
    """Find the octaves of one entry of each row; a loop of its own is made vectors."""
    take_widest()
    if row.shape[1] == 2:
        for i in range(out.size):
            given = column, ups[i], fields[i], mask, shift
            out[i] = _octave(row[i, 0], row[i, 1], *given)
    else:
        for i in range(out.size):
            given = column, ups[i], fields[i], mask, shift
            out[i] = _octave(row[i, 0], row[i, 0], *given)


def count_octaves(x: Array) -> Array:
    """Count the entries of each row down to some octaves."""
    rows = tall(read_only(np.ascontiguousarray(x)))
    out = np.empty((len(rows), len(_ENDS)), np.int32)
    pieces = ranges(len(rows), smallest=16, each=x.shape[-1] // 4)
    run_each(lambda r: _count(rows, _ENDS, *r, out), pieces)
    return out.reshape(*x.shape[:-1], len(_ENDS))


@kernel
def _count(x, ends, lo, hi, out):  # type: ignore[no-untyped-def]
    """out[i, b] = number of entries of row i up to ends[b]."""
    take_widest()
    for i in range(lo, hi):
        row = x[i]
        for b in range(ends.size):
            end, total = ends[b], np.int32(0)
            for t in range(row.size):
                total += np.int32(row[t] <= end)
            out[i, b] = total


def multiply_octaves(x: Array, y: Array) -> Array:
    """Find the least sum of octaves of each pair of rows."""
    out = np.full((len(x), len(y)), NONE, np.uint8)
    left, right = read_only(np.ascontiguousarray(x)), _turn(y)
    pieces = ranges(len(x), smallest=2, each=y.size // 150)
    run_each(lambda r: _multiply(left, right, *r, out), pieces)
    return out


def _turn(x: Array) -> Array:
    """Copy the transpose."""
    given, out = read_only(np.ascontiguousarray(x)), np.empty(x.shape[::-1], x.dtype)
    pieces = ranges(len(x), smallest=_SQUARE, each=x.shape[1] // 2)
    run_each(lambda r: _turn_rows(given, *r, out), pieces)
    return read_only(out)


@kernel
def _turn_rows(x, lo, hi, out):  # type: ignore[no-untyped-def]
    """out[t, i] = x[i, t], by squares: either reads or writes go from row to row."""
    for start in range(lo, hi, _SQUARE):
        stop = min(start + _SQUARE, hi)
        for first in range(0, x.shape[1], _SQUARE):
            for t in range(first, min(first + _SQUARE, x.shape[1])):
                to = out[t]
                for i in range(start, stop):
                    to[i] = x[i, t]


@inner
def _least(a, b):  # type: ignore[no-untyped-def]
    return a if a < b else b


@inner
def _least_sum(a, x, b, y):  # type: ignore[no-untyped-def]
    return _least(np.uint8(a + x), np.uint8(b + y))


@kernel
def _multiply(x, y, lo, hi, out):  # type: ignore[no-untyped-def]
    """out[i, j] = the least of it and x[i, t] + y[t, j] of all t, of rows lo..hi."""
    take_widest()
    k, n = y.shape
    for start in range(0, n, _COLUMNS):
        own = slice(start, min(start + _COLUMNS, n))
        for first in range(0, k, _TERMS):
            for i in range(lo, hi, 2):
                # Past the last row or term there it is again.
                other = min(i + 1, hi - 1)
                a, b, to, too = x[i], x[other], out[i, own], out[other, own]
                for t in range(first, min(first + _TERMS, k), 4):
                    t1, t2, t3 = min(t + 1, k - 1), min(t + 2, k - 1), min(t + 3, k - 1)
                    p, q, r, s = y[t, own], y[t1, own], y[t2, own], y[t3, own]
                    a0, a1, a2, a3 = a[t], a[t1], a[t2], a[t3]
                    b0, b1, b2, b3 = b[t], b[t1], b[t2], b[t3]
                    for j in range(to.size):
                        one = _least_sum(a0, p[j], a1, q[j])
                        two = _least_sum(a2, r[j], a3, s[j])
                        to[j] = _least(to[j], _least(one, two))
                        one = _least_sum(b0, p[j], b1, q[j])
                        two = _least_sum(b2, r[j], b3, s[j])
                        too[j] = _least(too[j], _least(one, two))
