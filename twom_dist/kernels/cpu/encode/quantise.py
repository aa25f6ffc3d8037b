"""Quantise: entries -> the words of ``x' = rint(x 2^s)``, in the order of the planes.

Every 16 rows by 4 columns form a line, as in `CpuEncoded`. In this order planes are
computed entry by entry, regardless of rows.
"""

import numpy as np

from ..jit import inner
from ..planes import DEPTH, GROUP
from .words import (
    EIGHT,
    ORDER_BYTES,
    ROWS_BYTES,
    quantise_along,
    quantise_complex_across,
    quantise_real_across,
)

# Columns that are copied at a time, and stay in L1; and the shape of a copy.
_COPIED = 64
COPY = 2, _COPIED // EIGHT, GROUP, EIGHT
_ONES = np.ones(GROUP)  # factors where there are none


@inner
def quantise_lines(x, across, rows, k, columns, factors, form, first, last, copy, out):
    """Write out[line, word, t, r]: the words of lines first..last, 2^31 too large.

    Of matrices that begin with a group each: x is (matrices, rows, k, parts), or
    (matrices, k, rows, parts) if `across`. columns: factors of each along k, or none,
    for all of its parts unless `across`; factors: (2, matrices, rows); form: the sign
    of Im, and words of each part, those of Re first. One more line may be written.
    """
    each, line_bytes, line = EIGHT // x.shape[3], out.strides[0], first
    lines, groups = -(-k // DEPTH), -(-rows // GROUP)
    while line < last:
        group, start = divmod(line, lines)
        stop = min(lines, start + last - line)
        matrix, row = group // groups, group % groups * GROUP
        own = factors[:, matrix, row : min(rows, row + GROUP)]
        lo, hi = start * DEPTH, min(k, stop * DEPTH)
        target = out[line - first].ctypes.data
        where = x[matrix], across, row, columns, own, form
        if own.shape[1] == GROUP and own[0].min() > 0.0:
            steps = (hi - lo) // each
            _quantise_whole(*where, lo, steps, target, line_bytes)
            lo += steps * each
            target += steps * each // DEPTH * line_bytes
        while lo < hi:
            end = min(hi, lo + _COPIED)
            _quantise_copy(*where, lo, end, target, line_bytes, copy)
            lo = end
            target += _COPIED // DEPTH * line_bytes
        line += stop - start


@inner
def _quantise_whole(x, across, row, columns, factors, form, lo, steps, out, line_bytes):
    """Write the words of 16 finite rows from a column on, in whole steps."""
    parts, (im_sign, count) = x.shape[2], form
    each, shifts, distance = EIGHT // parts, _ONES.ctypes.data, 0
    if columns.size > 0 and steps > 0:
        shifts = columns[lo if across else lo * parts :].ctypes.data
        distance = columns.itemsize * (each if across else EIGHT)
    if parts == 2:
        sign = im_sign
        to = count * ORDER_BYTES, ROWS_BYTES, 2 * ROWS_BYTES, line_bytes
    else:
        sign = 1.0
        to = ROWS_BYTES, 2 * ROWS_BYTES, line_bytes, 2 * line_bytes
    scaled = factors[0].ctypes.data, factors[1].ctypes.data
    given = (shifts, distance), scaled, sign, count, out, to, steps
    base, zero = x.ctypes.data, x.dtype.type(0)
    if not across:
        source = base + row * x.strides[0] + lo * x.strides[1]
        quantise_along(zero, source, (x.strides[0], 0, EIGHT * x.itemsize), *given)
        return
    source = base + lo * x.strides[0] + row * x.strides[1]
    strides = x.strides[1], x.strides[0], each * x.strides[0]
    if parts == 2:
        quantise_complex_across(zero, source, strides, *given)
    else:
        quantise_real_across(zero, source, strides, *given)


@inner
def _quantise_copy(
    x, across, row, columns, factors, form, lo, hi, out, line_bytes, copy
):
    """Write the words of any rows, and columns lo..hi, of a copy padded with zeros."""
    im_sign, count = form
    parts, steps = x.shape[2], -(-(hi - lo) // EIGHT)
    sign = im_sign if parts == 2 else 0.0
    _copy(x, across, row, columns, factors, sign, lo, hi, steps, copy)
    ones, strides = _ONES.ctypes.data, (EIGHT * copy.itemsize, 0, copy.strides[1])
    given = strides, (ones, 0), (ones, ones), 1.0
    to = ROWS_BYTES, 2 * ROWS_BYTES, line_bytes, 2 * line_bytes
    for part in range(parts):
        source, at = copy[part].ctypes.data, out + part * count * ORDER_BYTES
        quantise_along(0.0, source, *given, count, at, to, steps)


@inner
def _copy(x, across, row, columns, factors, im_sign, lo, hi, steps, out):
    """out[part, s, r, t] = x[row + r, lo + 8 s + t, part], scaled; zeros elsewhere.

    x[k, row, part] if `across`. Rows whose factor is 0 have a NaN or an Inf.
    """
    flat, (height, width, parts) = x.reshape(-1), x.shape
    each = columns.size // (height if across else width)
    one_row, one_column = (parts, width * parts) if across else (width * parts, parts)
    re, im = out[0], out[1]
    for s in range(steps):
        first = lo + EIGHT * s
        for r in range(GROUP):
            f1, f2, own = 0.0, 0.0, 0
            if r < factors.shape[1] and factors[0, r] != 0.0:
                f1, f2, own = factors[0, r], factors[1, r], min(EIGHT, hi - first)
            for t in range(own, EIGHT):
                re[s, r, t] = im[s, r, t] = 0.0
            at = (row + r) * one_row + first * one_column
            for t in range(own):
                shift = columns[each * (first + t)] if each > 0 else 1.0
                re[s, r, t] = flat[at] * shift * f1 * f2
                im[s, r, t] = im_sign * (flat[at + parts - 1] * shift * f1 * f2)
                at += one_column
