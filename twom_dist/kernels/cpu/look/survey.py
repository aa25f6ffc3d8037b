"""Survey: all that a look at whole rows finds, by one kernel from entry to exponent.

The stages that `Engine` has for this are apart, since tiles of a row combine between
them, and each passes over the matrix. Here a few rows stay in the caches meanwhile.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....moduli import NONFINITE_ROW, ZERO_ROW
from ....typing import Array
from ...survey import Surveyed
from ..compiled import inner, kernel
from ..layout import list_entries
from ..threads import num_threads, ranges, run_each
from .entries import row_sums_inner, row_sums_outer
from .norms import (
    MASKS,
    NO_EXPONENT,
    column_factors,
    extreme_bits_inner,
    extreme_bits_outer,
    largest_bits_inner,
    largest_bits_outer,
    read_exponents,
    relate,
)

# Numbers of the rows that stay in L2.
_BLOCK = 1 << 14
# Nanoseconds of an entry, roughly.
_ENTRY = 6


def _describe(char: str) -> tuple[Array, Any, int]:
    """Return the mask of magnitudes, the bits below exponents, and the least one."""
    info, mask = np.finfo(char), np.array([MASKS[char]])
    return mask, mask.dtype.type(info.nmant), int(info.minexp)


_FORMATS = {char: _describe(char) for char in MASKS}
# What multiplies columns without shifts, for each real type.
_UNSHIFTED = {
    x: (column_factors(None, 1, np.dtype(x)), column_factors(None)) for x in MASKS
}
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


class Look(NamedTuple):
    """Findings of an operand.

    Attributes
    ----------
    entries : (matrices, rows, k, parts)
        Or (matrices, k, rows, parts) if `across`.
    across : bool
    shape : tuple of int
        (..., rows) of the operand.
    largest : (rows of all matrices,) int32
    sums : (2, rows of all matrices) int64
        Of squares, and of magnitudes.
    extremes : (places, 3, k) int32
        Of each matrix of a stack, or of ranges of the rows of one; or none.
    """

    entries: Array
    across: bool
    shape: tuple[int, ...]
    largest: Array
    sums: Array
    extremes: Array

    @property
    def squares(self) -> Array:
        """Sums of squares alone."""
        found: Array = self.sums[0]
        return found

    @property
    def length(self) -> int:
        """Entries of a row."""
        return int(self.entries.shape[1 if self.across else 2])

    def surveyed(self, totals: bool = True) -> Surveyed:
        """Return the findings."""
        ends, shape = self.extremes, self.shape
        largest, squares, magnitudes = (
            t.reshape(shape) for t in (self.largest, *self.sums)
        )
        if not len(ends):
            return Surveyed(largest, squares, magnitudes if totals else None)
        if len(self.entries) == 1 and len(ends) > 1:
            ends = ends.max(axis=0)
        ends = ends.reshape(*shape[:-1], *ends.shape[-2:])
        return Surveyed(largest, squares, magnitudes if totals else None, ends)


def survey(
    operands: Sequence[Array],
    norm_bits: int,
    *,
    totals: bool,
    columns: bool,
    shifts: Sequence[Array] | None = None,
) -> list[Surveyed]:
    """Look at the rows of all operands side by side."""
    found = look(operands, norm_bits, columns, shifts)
    return [x.surveyed(totals) for x in found]


def look(
    operands: Sequence[Array],
    norm_bits: int,
    columns: bool,
    shifts: Sequence[Array] | None = None,
) -> list[Look]:
    """Find all of `survey`, in one loop."""
    found, pieces, work, threads = [], [], 0, num_threads()
    for place, x in enumerate(operands):
        entries, across = list_entries(x)
        plan = _plan(x.shape, across, columns, threads)
        largest, extremes = np.empty(plan.rows, _INT32), np.empty(plan.ends, _INT32)
        sums, char = np.zeros(plan.sums, _INT64), entries.dtype.char
        factors = _UNSHIFTED[char]
        if shifts is not None:
            parts = 1 if across else entries.shape[3]
            given = shifts[place], parts, entries.dtype
            factors = column_factors(*given), column_factors(shifts[place])
        own = entries, *factors, norm_bits, _FORMATS[char], largest, sums, extremes
        function = _look_across if across else _look_along
        for piece in plan.pieces:
            pieces.append((function, own, piece))
        work += plan.work
        found.append(Look(entries, across, plan.shape, largest, sums, extremes))
    run_each(_look, pieces, work)
    return found


def _look(piece: tuple[Callable[..., None], tuple[Any, ...], tuple[Any, ...]]) -> None:
    function, own, where = piece
    function(*own, *where)


class _LookPlan(NamedTuple):
    """Sizes of what is found of an operand, and how its rows are shared.

    Attributes
    ----------
    shape : tuple of int
        (..., rows) of the operand.
    rows : int
        Of all matrices.
    sums, ends : tuple of int
        The shapes of the sums and of the extremes.
    pieces : list of (first row, last row, place)
    work : int
        Nanoseconds, roughly.
    """

    shape: tuple[int, ...]
    rows: int
    sums: tuple[int, int]
    ends: tuple[int, int, int]
    pieces: list[tuple[int, int, int]]
    work: int


@lru_cache(maxsize=1024)
def _plan(
    shape: tuple[int, ...], across: bool, columns: bool, threads: int
) -> _LookPlan:
    """Plan a look."""
    *stack, rows, k = shape
    count, each = prod(stack), _ENTRY * k
    pieces, of_all = cut_rows(count, rows, across, each, threads), count * rows
    ends = (max(count, len(pieces)) if columns else 0), 3, k
    return _LookPlan(shape[:-1], of_all, (2, of_all), ends, pieces, of_all * each)


def cut_rows(
    count: int, rows: int, across: bool, each: int, threads: int | None = None
) -> list[tuple[int, int, int]]:
    """Cut the rows of all matrices, and number what is found of each piece's columns.

    `each`: roughly the nanoseconds of a row.
    """
    if count > 1:
        # Whole matrices: each has columns of its own.
        own = ranges(count, each=rows * each, threads=threads)
        return [(lo * rows, hi * rows, lo) for lo, hi in own]
    smallest = 128 if across else 16
    found = ranges(rows, smallest=smallest, each=each, threads=threads)
    return [(*ends, place) for place, ends in enumerate(found)]


@inner
def _forget(largest, sums):  # type: ignore[no-untyped-def]
    """Clear the sums of rows that are 0 or not finite."""
    for i in range(largest.size):
        if abs(largest[i]) >= NONFINITE_ROW // 2:
            sums[0, i], sums[1, i] = 0, 0


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
def _look_along(  # type: ignore[no-untyped-def]
    x, own_columns, columns, norm_bits, form, largest, sums, extremes, lo, hi, place
):
    """Look at rows lo..hi of the matrices of x[matrix, row, k, part].

    own_columns, columns: what multiplies each t, in the precision of x and in double,
    or nothing; extremes[place]: of the first matrix among these.
    """
    count, rows, k, parts = x.shape
    mask, shift, minexp = form
    lanes = k * parts
    tall, block = x.reshape(count * rows, lanes), max(1, _BLOCK // lanes)
    words = tall.view(mask.dtype)
    bits, fields = np.zeros(block, mask.dtype), np.empty(block, mask.dtype)
    kept, factors = np.empty(block, mask.dtype), np.empty((2, block))
    some = min(1, len(extremes))
    top = np.empty(some * lanes, mask.dtype)
    most, least = np.empty_like(top), np.empty_like(top)
    for matrix in range(lo // rows, -(-hi // rows)):
        top[:], most[:], least[:] = NO_EXPONENT, 0, mask[0]
        first, last = max(lo, matrix * rows), min(hi, matrix * rows + rows)
        for i in range(first, last, block):
            n = min(block, last - i)
            own, e, found = tall[i : i + n], largest[i : i + n], sums[:, i : i + n]
            bits[:n] = 0
            largest_bits_inner(own, own_columns, mask[0], 0, n, bits)
            read_exponents(bits[:n].view(x.dtype), e)
            relate(e, norm_bits, factors[0, :n], factors[1, :n])
            given = own, factors[0], factors[1], columns, parts, 0, n
            row_sums_inner(*given, sums[0, i : i + n], sums[1, i : i + n])
            _forget(e, found)
            if some > 0:
                _list_kept(e, mask[0], minexp, kept, fields)
                by_row = words[i : i + n].reshape(1, n, lanes)
                both = kept.reshape(1, block), fields.reshape(1, block)
                where = mask[0], shift, 0, lanes, top, most, least
                extreme_bits_outer(by_row, *both, *where)
        if some > 0:
            out = extremes[place + matrix - lo // rows]
            _write_extremes(top, most, least, parts, mask[0], x.dtype, out)


@kernel
def _look_across(  # type: ignore[no-untyped-def]
    x, own_columns, columns, norm_bits, form, largest, sums, extremes, lo, hi, place
):
    """Look at rows lo..hi of the matrices of x[matrix, k, row, part]."""
    count, k, rows, parts = x.shape
    mask, shift, minexp = form
    lanes, own = x.reshape(count, k, rows * parts), slice(lo, hi)
    words = lanes.view(mask.dtype)
    of_lanes, bits = (
        np.zeros(count * rows * parts, mask.dtype),
        np.zeros(hi - lo, mask.dtype),
    )
    largest_bits_outer(lanes, own_columns, mask[0], lo * parts, hi * parts, of_lanes)
    for i in range(lo * parts, hi * parts):
        bits[i // parts - lo] = max(bits[i // parts - lo], of_lanes[i])
    e, factors = largest[own], np.empty((2, count * rows))
    read_exponents(bits.view(x.dtype), e)
    relate(e, norm_bits, factors[0, own], factors[1, own])
    given = lanes, factors[0], factors[1], columns, parts, lo, hi
    row_sums_outer(*given, sums[0], sums[1])
    _forget(e, sums[:, own])
    if len(extremes) == 0:
        return
    kept, fields = np.empty_like(bits), np.empty_like(bits)
    _list_kept(e, mask[0], minexp, kept, fields)
    wide = np.empty((2, count, rows * parts), mask.dtype)
    flat = wide.reshape(2, -1)
    for i in range(lo * parts, hi * parts):
        flat[0, i], flat[1, i] = kept[i // parts - lo], fields[i // parts - lo]
    top = np.empty(count * k, mask.dtype)
    most, least = np.empty_like(top), np.empty_like(top)
    top[:], most[:], least[:] = NO_EXPONENT, 0, mask[0]
    for matrix in range(lo // rows, -(-hi // rows)):
        start = matrix * rows
        first, last = max(lo - start, 0) * parts, min(hi - start, rows) * parts
        here = slice(matrix * k, matrix * k + k)
        where = mask[0], shift, here.start, here.stop, first, last, top, most, least
        extreme_bits_inner(words, wide[0], wide[1], *where)
        out = extremes[place + matrix - lo // rows]
        _write_extremes(top[here], most[here], least[here], 1, mask[0], x.dtype, out)
