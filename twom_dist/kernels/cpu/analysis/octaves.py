"""Octaves of entries below the largest of their rows, and their (min, +) product."""

from typing import Any

import numpy as np

from ....moduli import NONFINITE_ROW, ZERO_ROW
from ....typing import Array
from ...statistics import COUNTED, FAR, FURTHEST, NONE
from ..jit import inner, kernel
from ..layout import list_entries, read_only
from ..threads import ranges, run_each
from ..units import take_widest
from .norms import FORMATS, NO_EXPONENT, bits_of, column_factors

# Entries of a row and rows that are counted together where rows lie across memory; a
# byte counts no more than 255.
_TERMS, _WIDTH = 64, 512
# Columns, and terms of each, of Y^T that stay in L2 while all rows of X meet them.
_COLUMNS, _DEPTH = 2048, 64
# Columns of which two rows end together, and the terms after which they are looked at.
_NARROW, _CHECKED = 512, 256
# Entries that are counted in 16 bits.
_COUNTED = 1 << 14
_ENDS = np.array(COUNTED, np.uint8)


def octaves(x: Array, largest: Array, shifts: Array | None = None) -> Array:
    """Find the octaves of entries below the largest of their rows; laid out as x is."""
    entries, across = list_entries(x)
    given = *describe(entries, across, shifts), largest.flatten()
    out, least = np.empty(entries.shape[:3], np.uint8), _WIDTH if across else 16
    pieces = ranges(largest.size, smallest=least, each=x.shape[-1])
    run_each(lambda piece: _octaves(*given, *piece, out), pieces)
    return (out.swapaxes(1, 2) if across else out).reshape(x.shape)


def describe(entries: Array, across: bool, shifts: Array | None) -> tuple[Any, ...]:
    """List what kernels take of an operand besides its rows' largest exponents."""
    columns = column_factors(shifts, 1, entries.dtype)
    return entries, across, columns, FORMATS[entries.dtype.char]


@inner
def _octave(re, im, column, up, field, bits):  # type: ignore[no-untyped-def]
    """Return the octave of one entry, whose products with the factors are exact."""
    mask, shift = bits
    one = bits_of(re * column * up) & mask
    two = bits_of(im * column * up) & mask
    both = one if one > two else two
    below = field - (both >> shift)
    below = below if below < FURTHEST else FAR
    return np.uint8(below if both != 0 and field != NO_EXPONENT else NONE)


@kernel
def _octaves(x, across, columns, form, largest, lo, hi, out):  # type: ignore[no-untyped-def]
    """Find those of rows lo..hi of all matrices of x[matrix, row, t, part].

    Or x[matrix, t, row, part] if `across`; columns: what each t is multiplied by
    before, or nothing.
    """
    fields, ups = _relate(x, largest, lo, hi, form)
    bits, rows = (form[0][0], form[1]), x.shape[2] if across else x.shape[1]
    for matrix in range(lo // rows, -(-hi // rows)):
        before = matrix * rows
        start, end = max(lo, before), min(hi, before + rows)
        if across:
            own, here = slice(start - before, end - before), slice(start - lo, end - lo)
            some, to = slice(0, x.shape[1]), out[matrix, :, own]
            given = columns, ups[here], fields[here], bits
            _octaves_across(x[matrix], some, own, *given, to)
            continue
        for i in range(start, end):
            given = columns, ups[i - lo], fields[i - lo], bits
            _octaves_along(x[matrix, i - before], *given, out[matrix, i - before])


@kernel
def count_octaves(x, across, columns, form, largest, out, lo, hi):  # type: ignore[no-untyped-def]
    """out[i, b] = number of entries of row i down to octave `COUNTED[b]`.

    What is given is that of `_octaves`.
    """
    take_widest()
    fields, ups = _relate(x, largest, lo, hi, form)
    bits = form[0][0], form[1]
    rows = x.shape[2] if across else x.shape[1]
    if not across:
        row = np.empty(x.shape[2], np.uint8)
        for i in range(lo, hi):
            given = columns, ups[i - lo], fields[i - lo], bits
            _octaves_along(x[i // rows, i % rows], *given, row)
            _count(row, out[i])
        return
    part = np.empty((_TERMS, _WIDTH), np.uint8)
    for matrix in range(lo // rows, -(-hi // rows)):
        before = matrix * rows
        end = min(hi, before + rows)
        for first in range(max(lo, before), end, _WIDTH):
            last = min(end, first + _WIDTH)
            own = slice(first - before, last - before)
            here = slice(first - lo, last - lo)
            total = np.zeros((_ENDS.size, last - first), np.int32)
            for begin in range(0, x.shape[1], _TERMS):
                some = slice(begin, min(begin + _TERMS, x.shape[1]))
                given = columns, ups[here], fields[here], bits
                _octaves_across(x[matrix], some, own, *given, part)
                # Beyond the last term nothing is counted.
                part[some.stop - begin :] = NONE
                for b in range(_ENDS.size):
                    _add_counts(part, _ENDS[b], total[b])
            out[first:last] = total.T


@inner
def _relate(x, largest, lo, hi, form):  # type: ignore[no-untyped-def]
    """List the largest exponents as numbers of x store them, and what raises rows.

    Rows that subnormal numbers count in are raised above these, exactly.
    """
    mask, shift, minexp = form
    fields, ups = np.empty(hi - lo, mask.dtype), np.ones(hi - lo, x.dtype)
    for i in range(hi - lo):
        e = largest[lo + i]
        if e == ZERO_ROW or e >= NONFINITE_ROW:
            fields[i] = NO_EXPONENT
        elif e - minexp > FURTHEST:
            fields[i] = e - minexp
        else:
            fields[i] = e - minexp + shift + 1
            ups[i] = np.int64(2) << np.int64(shift)
    return fields, ups


@inner
def _count(row, out):  # type: ignore[no-untyped-def]
    """Count the entries of a row down to each of the octaves."""
    for b in range(_ENDS.size):
        out[b] = 0
        for first in range(0, row.size, _COUNTED):
            out[b] += _count_few(row[first : first + _COUNTED], _ENDS[b])


@inner
def _count_few(x, end):  # type: ignore[no-untyped-def]
    """Count in 16 bits, of which a vector has more."""
    take_widest()
    total = np.uint16(0)
    for t in range(x.size):
        total = np.uint16(total + np.uint16(x[t] <= end))
    return total


@inner
def _add_counts(part, end, total):  # type: ignore[no-untyped-def]
    """total[i] += how many of part[:, i] are up to `end`; bytes suffice for these."""
    take_widest()
    some = np.zeros(total.size, np.uint8)
    for t in range(0, _TERMS, 4):
        p, q, r, s = part[t], part[t + 1], part[t + 2], part[t + 3]
        for i in range(total.size):
            two = np.uint8(p[i] <= end) + np.uint8(q[i] <= end)
            some[i] += np.uint8(two + np.uint8(r[i] <= end) + np.uint8(s[i] <= end))
    for i in range(total.size):
        total[i] += some[i]


@inner
def _octaves_along(row, columns, up, field, bits, out):  # type: ignore[no-untyped-def]
    """Find the octaves of a row."""
    take_widest()
    shifted, parts, one = columns.size > 0, row.shape[1], row.dtype.type(1)
    if parts == 2 and not shifted:
        for t in range(out.size):
            out[t] = _octave(row[t, 0], row[t, 1], one, up, field, bits)
    else:
        for t in range(out.size):
            column, im = columns[t] if shifted else one, row[t, parts - 1]
            out[t] = _octave(row[t, 0], im, column, up, field, bits)


@inner
def _octaves_across(x, some, own, columns, ups, fields, bits, out):  # type: ignore[no-untyped-def]
    """Find out[t, i], of some entries of some rows of x[t, row, part]."""
    for t in range(some.stop - some.start):
        # By one index: it says that entries are side by side.
        row, column = x[some.start + t, own], x.dtype.type(1)
        if columns.size > 0:
            column = columns[some.start + t]
        _octaves_of(row, column, ups, fields, bits, out[t, : ups.size])


@inner
def _octaves_of(row, column, ups, fields, bits, out):  # type: ignore[no-untyped-def]
    """Find the octaves of one entry of each row; a separate loop is made vectors."""
    take_widest()
    if row.shape[1] == 2:
        for i in range(out.size):
            given = column, ups[i], fields[i], bits
            out[i] = _octave(row[i, 0], row[i, 1], *given)
    else:
        for i in range(out.size):
            given = column, ups[i], fields[i], bits
            out[i] = _octave(row[i, 0], row[i, 0], *given)


def multiply_octaves(
    x: Array, y: Array, least: Array | None = None, enough: Any = None
) -> Array:
    """Find the least sum of octaves of each pair of rows."""
    out = np.full((len(x), len(y)), NONE, np.uint8) if least is None else least
    rows, columns = enough or (np.empty(0, np.int16),) * 2
    if enough and not _is_open(out, rows, columns):
        return out
    left, right = (read_only(np.ascontiguousarray(t)) for t in (x, y.T))
    pieces = ranges(len(x), smallest=2, each=y.size // 150)
    run_each(lambda r: _multiply(left, right, *r, rows, columns, out), pieces)
    return out


@inner
def _least(a, b):  # type: ignore[no-untyped-def]
    return a if a < b else b


@inner
def _least_sum(a, x, b, y):  # type: ignore[no-untyped-def]
    return _least(np.uint8(a + x), np.uint8(b + y))


@inner
def _count_open(least, row, columns):  # type: ignore[no-untyped-def]
    count = np.int64(0)
    for j in range(least.size):
        count += np.int16(least[j]) * np.int16(8) > np.int16(row + columns[j])
    return count


@kernel
def _is_open(least, rows, columns):  # type: ignore[no-untyped-def]
    count = np.int64(0)
    for i in range(len(least)):
        count += _count_open(least[i], rows[i], columns)
    return count > 0


@kernel
def _multiply(x, y, lo, hi, rows, columns, out):  # type: ignore[no-untyped-def]
    """out[i, j] = the least of it and x[i, t] + y[t, j] of all t, of rows lo..hi.

    Two rows end once those of a block of columns are all at most what is enough.
    """
    take_widest()
    k, n = y.shape
    width = _NARROW if rows.size > 0 else _COLUMNS
    is_open = np.empty((hi - lo + 1) // 2, np.bool_)
    for start in range(0, n, width):
        own = slice(start, min(start + width, n))
        is_open[:] = True
        for first in range(0, k, _DEPTH):
            for i in range(lo, hi, 2):
                if not is_open[(i - lo) // 2]:
                    continue
                other = min(i + 1, hi - 1)  # past the last row or term, that one again
                a, b, to, too = x[i], x[other], out[i, own], out[other, own]
                if rows.size > 0 and first % _CHECKED == 0:
                    more = _count_open(to, rows[i], columns[own])
                    more += _count_open(too, rows[other], columns[own])
                    is_open[(i - lo) // 2] = more > 0
                    if more == 0:
                        continue
                for t in range(first, min(first + _DEPTH, k), 4):
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
