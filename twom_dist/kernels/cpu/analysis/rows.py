"""Statistics of rows, by one kernel from entry to exponent.

If a row is cut into tiles, results are combined after each pass; a few whole rows stay
in the caches for all passes.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....moduli import NONFINITE_ROW, ZERO_ROW
from ....typing import Array
from ...statistics import COUNTED, Ask, RowStatistics
from ..jit import inner, kernel
from ..layout import list_entries
from ..threads import num_threads, ranges, run_each
from .entries import row_sums_inner, row_sums_outer
from .norms import (
    FORMATS,
    NO_EXPONENT,
    column_factors,
    exponents_across,
    extreme_bits_inner,
    extreme_bits_outer,
    largest_bits_inner,
    read_exponents,
    relate,
    square_sums_inner,
    squares_across,
)
from .octaves import count_octaves, describe

_BLOCK = 1 << 14  # numbers of the rows that stay in L2
# Nanoseconds of an entry, roughly: of all that can be asked for, and of squares alone.
_ALL, _SQUARES = 6, 1

# What multiplies columns without shifts, for each real type.
UNSHIFTED = {
    x: (column_factors(None, 1, np.dtype(x)), column_factors(None)) for x in FORMATS
}
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def measure(
    x: Array,
    norm_bits: int,
    asks: Collection[Ask] = (),
    *,
    largest: Array | None = None,
    shifts: Array | None = None,
) -> RowStatistics:
    """Find what is asked for of the rows of one operand."""
    own, both = [largest], None if shifts is None else [shifts]
    return measure_all([x], norm_bits, asks, own, both)[0]


def measure_all(
    operands: Sequence[Array],
    norm_bits: int,
    asks: Collection[Ask],
    largest: Sequence[Array | None],
    shifts: Sequence[Array] | None = None,
    unit: float = 0.0,
) -> list[RowStatistics]:
    """Find what is asked for of the rows of all operands side by side.

    `unit`: if given, squares are those of rounding errors in units of 1 / `unit`.
    """
    found, pieces, work, threads = [], [], 0, num_threads()
    kinds = 2 if "totals" in asks else int("squares" in asks)
    for place, (x, known) in enumerate(zip(operands, largest, strict=True)):
        entries, across = list_entries(x)
        plan = _plan(x.shape, across, kinds, "columns" in asks, threads)
        sums, char = np.zeros((kinds, plan.rows), _INT64), entries.dtype.char
        # A copy: what other workers computed arrives read-only, a type of its own.
        e = np.empty(plan.rows, _INT32) if known is None else known.flatten()
        extremes, factors = np.empty(plan.ends, _INT32), UNSHIFTED[char]
        if not plan.pieces:  # without entries
            extremes.fill(ZERO_ROW)
            if known is None:
                e.fill(ZERO_ROW)
        if shifts is not None:
            parts = 1 if across else entries.shape[3]
            # Magnitudes are of entries, squares of their parts.
            wide = column_factors(shifts[place], 1 if kinds == 2 else parts)
            factors = column_factors(shifts[place], parts, entries.dtype), wide
        of_all = known is not None, norm_bits, unit, FORMATS[char]
        given = entries, *factors, of_all, e, sums, extremes
        function = measure_across if across else measure_along
        counts, counted = None, ()
        if "octaves" in asks:
            own = None if shifts is None else shifts[place]
            counts = np.zeros((plan.rows, len(COUNTED)), _INT32)
            counted = *describe(entries, across, own), e, counts
        measured = given if kinds or known is None or "columns" in asks else ()
        pieces += [(function, measured, counted, piece) for piece in plan.pieces]
        work += plan.work
        found.append((plan, e, sums, extremes, counts))
    run_each(_measure_piece, pieces, work)
    return [_as_statistics(*one) for one in found]


def _measure_piece(piece: tuple[Any, ...]) -> None:
    """Analyse some rows, and count their octaves while they are in the caches."""
    function, measured, counted, ends = piece
    if measured:
        function(*measured, *ends)
    if counted:
        count_octaves(*counted, *ends[:2])


def _as_statistics(
    plan: "_Plan", largest: Array, sums: Array, extremes: Array, counts: Array | None
) -> RowStatistics:
    """Give what has been found the shape of the operand's rows."""
    shape, columns = plan.shape, None
    if len(extremes):
        # Each is of some rows of the only matrix, or of a matrix of a stack.
        if plan.one and len(extremes) > 1:
            extremes = extremes.max(axis=0)
        columns = extremes.reshape(*shape[:-1], *extremes.shape[-2:])
    squares, totals, *_ = *(x.reshape(shape) for x in sums), None, None
    octaves = None if counts is None else counts.reshape(*shape, len(COUNTED))
    return RowStatistics(largest.reshape(shape), squares, totals, columns, octaves)


class _Plan(NamedTuple):
    """Sizes of what is found of an operand, and how its rows are shared."""

    shape: tuple[int, ...]  # (..., rows) of the operand
    one: bool  # whether it is one matrix
    rows: int  # of all matrices
    ends: tuple[int, int, int]  # the shape of the extremes
    pieces: list[tuple[int, int, int]]  # first row, last row, place
    work: int  # nanoseconds, roughly


@lru_cache(maxsize=1024)
def _plan(
    shape: tuple[int, ...], across: bool, kinds: int, columns: bool, threads: int
) -> _Plan:
    *stack, rows, k = shape
    count, each = prod(stack), k * (_ALL if kinds == 2 or columns else _SQUARES)
    of_all = count * rows
    pieces = []
    if of_all * k and count > 1:
        # Whole matrices: each has columns of its own.
        own = ranges(count, each=rows * each, threads=threads)
        pieces = [(lo * rows, hi * rows, lo) for lo, hi in own]
    elif of_all * k:
        smallest = 128 if across else 16
        own = ranges(rows, smallest=smallest, each=each, threads=threads)
        pieces = [(*ends, place) for place, ends in enumerate(own)]
    ends = (max(count, len(pieces)) if columns else 0), 3, k
    return _Plan(shape[:-1], count == 1, of_all, ends, pieces, of_all * each)


@inner
def _forget(largest, sums):  # type: ignore[no-untyped-def]
    """Clear the sums of rows that are 0 or not finite."""
    for i in range(largest.size):
        if abs(largest[i]) >= NONFINITE_ROW // 2:
            sums[:, i] = 0


@inner
def _write_extremes(top, most, least, parts, mask, real, out):  # type: ignore[no-untyped-def]
    """Find the exponents of extremes of the parts of columns, as numbers of a type."""
    ends = np.empty((2, out.shape[1]), most.dtype)
    for t in range(out.shape[1]):
        first, rest = t * parts, t * parts + parts - 1
        out[0, t] = max(top[first], top[rest])
        ends[0, t] = max(most[first], most[rest])
        # A zero is there as the largest number, which has this bit pattern less 1.
        ends[1, t] = min(least[first], least[rest])
    none = ends[1] == mask
    for t in range(out.shape[1]):
        ends[1, t] = 0 if none[t] else ends[1, t] + 1
    read_exponents(ends[0].view(real), out[1])
    read_exponents(ends[1].view(real), out[2])
    for t in range(out.shape[1]):
        out[2, t] = -out[2, t]
        if none[t]:
            out[:, t] = ZERO_ROW


@inner
def _list_kept(largest, mask, minexp, kept, fields):  # type: ignore[no-untyped-def]
    """List the masks of rows, 0 for those that are not finite, and their exponents."""
    for i in range(largest.size):
        kept[i] = 0 if largest[i] >= NONFINITE_ROW else mask
        # As numbers store them: 1 for the smallest normal ones.
        fields[i] = max(largest[i] - minexp, 1)


@kernel
def measure_along(  # type: ignore[no-untyped-def]
    x, own_columns, columns, of_all, largest, sums, extremes, lo, hi, place
):
    """Measure rows lo..hi of the matrices of x[matrix, row, k, part].

    own_columns: what multiplies each part of a row, in the precision of x, or nothing;
    columns: in double, of each part if there is one kind of sums, of each t if two;
    of_all: whether `largest` is known, norm_bits, the unit of rounding errors or 0, and
    the format of x; extremes[place]: of the first matrix among these.
    """
    count, rows, k, parts = x.shape
    known, norm_bits, unit, (mask, shift, minexp) = of_all
    lanes = k * parts
    tall, block = x.reshape(count * rows, lanes), max(1, _BLOCK // max(1, lanes))
    words = tall.view(mask.dtype)
    some, factors = min(1, len(extremes)), np.empty((2, block))
    of_rows = np.empty((2, some * block), mask.dtype)
    of_columns = np.empty((3, some * lanes), mask.dtype)
    kept, fields = of_rows[0], of_rows[1]
    top, most, least = of_columns[0], of_columns[1], of_columns[2]
    for matrix in range(lo // rows, -(-hi // rows)):
        top[:], most[:], least[:] = NO_EXPONENT, 0, mask[0]
        first, last = max(lo, matrix * rows), min(hi, matrix * rows + rows)
        for i in range(first, last, block):
            n = min(block, last - i)
            own, e, found = tall[i : i + n], largest[i : i + n], sums[:, i : i + n]
            if not known:
                bits = np.zeros(n, mask.dtype)
                largest_bits_inner(own, own_columns, mask[0], 0, n, bits)
                read_exponents(bits.view(x.dtype), e)
            if len(sums) > 0:
                relate(e, norm_bits, factors[0, :n], factors[1, :n])
                one, two = factors[0], factors[1]
                if len(sums) == 2:
                    both = sums[0, i : i + n], sums[1, i : i + n]
                    row_sums_inner(own, one, two, columns, parts, 0, n, *both)
                else:
                    square_sums_inner(own, one, two, columns, unit, 0, n, found[0])
                _forget(e, found)
            if some > 0:
                _list_kept(e, mask[0], minexp, kept, fields)
                given = words[i : i + n], kept, fields, mask[0], shift
                extreme_bits_outer(*given, top, most, least)
        if some > 0:
            out = extremes[place + matrix - lo // rows]
            _write_extremes(top, most, least, parts, mask[0], x.dtype, out)


@kernel
def measure_across(  # type: ignore[no-untyped-def]
    x, own_columns, columns, of_all, largest, sums, extremes, lo, hi, place
):
    """Measure rows lo..hi of the matrices of x[matrix, k, row, part]."""
    _, k, rows, parts = x.shape
    known, norm_bits, unit, (mask, shift, minexp) = of_all
    for matrix in range(lo // rows, -(-hi // rows)):
        start = matrix * rows
        begin, end = max(lo - start, 0), min(hi - start, rows)
        lanes, first, last = (
            x[matrix].reshape(k, rows * parts),
            begin * parts,
            end * parts,
        )
        own = slice(start + begin, start + end)
        e = largest[own]
        if not known:
            exponents_across(lanes, own_columns, mask, parts, first, last, e)
        if len(sums) > 0:
            factors = np.empty((2, e.size))
            relate(e, norm_bits, factors[0], factors[1])
            given = lanes, factors[0], factors[1], columns
            if len(sums) == 2:
                row_sums_outer(*given, parts, begin, end, sums[0, own], sums[1, own])
            else:
                squares_across(*given, unit, parts, first, last, sums[0, own])
            _forget(e, sums[:, own])
        if len(extremes) > 0:
            of_rows = np.empty((2, e.size), mask.dtype)
            of_parts = np.empty((2, last - first), mask.dtype)
            _list_kept(e, mask[0], minexp, of_rows[0], of_rows[1])
            for i in range(last - first):
                of_parts[:, i] = of_rows[:, i // parts]
            of_columns = np.empty((3, k), mask.dtype)
            top, most, least = of_columns[0], of_columns[1], of_columns[2]
            top[:], most[:], least[:] = NO_EXPONENT, 0, mask[0]
            words, where = lanes.view(mask.dtype), (mask[0], shift, first, last)
            extreme_bits_inner(
                words, of_parts[0], of_parts[1], *where, top, most, least
            )
            out = extremes[place + matrix - lo // rows]
            _write_extremes(top, most, least, 1, mask[0], x.dtype, out)
