"""Encode: entries -> int8 residue planes, quantised once for all of them.

A plane is a weighted sum of the bytes of each entry, reduced as products are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from ....moduli import ResidueSystem, ScalingRule, symmetric_residue
from ....typing import Array
from ...statistics import RowStatistics
from ..analysis.norms import (
    FORMATS,
    column_factors,
    numbers_of,
    rule_exponents,
    split_powers,
)
from ..analysis.rows import UNSHIFTED, measure_across, measure_along
from ..buffers import take_bytes
from ..jit import inner, kernel
from ..layout import list_entries
from ..planes import BYTE, DEPTH, GROUP, CpuEncoded, as_groups, as_whole
from ..products.reduction import reduction_entry
from ..threads import num_threads, ranges, run_each, scratch
from ..tuning import QUANTISED
from .quantise import COPY, quantise_lines
from .weighted_sums import weigh_bytes
from .words import WORD_BITS

# Lines of 16 rows by four columns whose words stay in L1 until planes are made of them.
_LINES = 24
# Groups whose rows fill a page, of float64 in two parts, where they lie side by side.
_PAGE = 16
_LINE, _WORDS = GROUP * DEPTH, np.dtype(np.int32)
_NO_COLUMNS = column_factors(None)


@dataclass(frozen=True)
class EncodeTables:
    """The residue system as the kernels read it."""

    # two of (float, int): the sign of imaginary parts, and words of a part; of entries,
    # and of their conjugates.
    forms: tuple[tuple[float, int], tuple[float, int]]
    # (groups of planes, words, 16, 4) int8: of bytes of words, as a left operand lies
    weights: Array
    # (2, planes, 4) int32: what sums of one part, and of all, are reduced by, of planes
    # that are padded: starts take back the 2^31 that words are too large.
    reduction: Array


@cache
def encode_tables(system: ResidueSystem) -> EncodeTables:
    """Tabulate the weights of every word in every plane."""
    # The last word has what is left.
    words = max(1, -(-(system.part_bits - 1) // WORD_BITS))
    assert (isqrt(system.capacity) >> WORD_BITS * (words - 1)) + 1 < 1 << 31
    moduli = [plane.p for plane in system.planes]
    # What has but one part leaves out the words of the other.
    count = 2 * words
    weights = np.zeros((len(moduli), count, DEPTH), np.int8)
    for row, plane in enumerate(system.planes):
        parts = plane.re_weight, plane.im_weight * (system.parts - 1)
        given = [w << WORD_BITS * t for w in parts for t in range(words)]
        weights[row] = [
            [symmetric_residue(w << 8 * i, plane.p) for i in range(DEPTH)]
            for w in given
        ]
    reduction = np.zeros((2, as_whole(len(moduli))), "i4, i4, i4, f4")
    for part, row in product(range(2), range(len(moduli))):
        own = weights[row, : words * (part + 1)]
        constant = -int(own[:, 0].sum()) << 31
        entry = reduction_entry(moduli[row], constant, own.ravel().tolist())
        reduction[part, row] = 0, *entry
    return EncodeTables(
        ((1.0, words), (-1.0, words)),
        as_groups(weights.reshape(len(moduli), count * DEPTH)),
        reduction.view(np.int32).reshape(2, -1, 4),
    )


# An operand, or a stack: x (..., rows, k); exponents (rows,) int32 of the rows of all
# matrices; whether it is conjugated; shifts (k,) int32 or None; what is known of the
# rows, or None. To make a class of its own takes ten times as long.
Rows = tuple[Array, Array, bool, Array | None, RowStatistics | None]


def encode_rows(
    operands: Sequence[Rows], system: ResidueSystem, rule: ScalingRule | None = None
) -> list[CpuEncoded]:
    """Quantise rows and write their planes; both operands share the threads.

    `rule`: if given, the exponents are chosen first, and written.
    """
    shapes = (operands[0][0].shape, operands[-1][0].shape)[: len(operands)]
    scaled = rule is not None and operands[0][4] is None
    plan = _plan(shapes, system, scaled, num_threads())
    tables = plan.tables
    memory = take_bytes(plan.nbytes)  # both at once: they are given back together
    found, given = [], []
    for operand, own in enumerate(plan.operands):
        planes: Array = np.ndarray(own.shape, BYTE, memory, own.start)
        found.append(CpuEncoded(own.rows, own.k, planes, plan.order, own.stack))
        described = _describe(operands[operand], rule, tables.forms)
        given.append((*described, tables.weights, tables.reduction, own.cut, planes))

    def write(piece: tuple[int, int, int]) -> None:
        operand, lo, hi = piece
        _write_planes(*given[operand], lo, hi, scratch(plan.size, _WORDS))

    run_each(write, plan.pieces, plan.work)
    return found


class _RowsPlan(NamedTuple):
    """Sizes of the planes of an operand."""

    stack: tuple[int, ...]
    rows: int
    k: int
    shape: tuple[int, ...]
    start: int  # their first byte, among those of all operands
    cut: tuple[int, int]  # groups whose factors are found together, lines of a group


class _EncodePlan(NamedTuple):
    """Operands that are encoded together, and how their rows are shared."""

    operands: list[_RowsPlan]
    tables: EncodeTables
    order: tuple[int, ...]  # where the planes stand
    nbytes: int
    size: int  # words that a thread holds
    pieces: list[tuple[int, int, int]]  # operand, first group, last group
    work: int  # nanoseconds, roughly


@lru_cache(maxsize=1024)
def _plan(
    shapes: tuple[tuple[int, ...], ...],
    system: ResidueSystem,
    scaled: bool,
    threads: int,
) -> _EncodePlan:
    """Plan the planes of operands of these shapes; `scaled`: norms are found, too."""
    count, tables = len(system.planes), encode_tables(system)
    operands: list[_RowsPlan] = []
    pieces: list[tuple[int, int, int]] = []
    end = work = 0
    size = (_LINES + 1) * _LINE * 2 * tables.forms[0][1]
    for operand, (*stack, m, k) in enumerate(shapes):
        groups, words = prod(stack) * -(-m // GROUP), -(-k // DEPTH)
        entries = words * _LINE
        strip = max(1, QUANTISED // max(1, entries))
        start, end = end, end + count * groups * entries
        shape, cut = (count, groups, words, GROUP, DEPTH), (strip, words)
        operands.append(_RowsPlan(tuple(stack), m, k, shape, start, cut))
        each = words * GROUP * (count + 4 * scaled)
        if end > start:
            shared = ranges(groups, each=each, threads=threads)
            pieces += [(operand, *ends) for ends in shared]
            work += groups * each
    order = tuple(range(count))
    return _EncodePlan(operands, tables, order, end, size, pieces, work)


def _describe(
    rows: Rows, rule: ScalingRule | None, forms: Sequence[Any]
) -> tuple[Any, ...]:
    """List what kernels take of an operand, its exponents and how they are chosen."""
    x, exponents, conjugate, shifts, known = rows
    scaling = chosen = None
    entries, across = list_entries(x)
    if rule is None:
        # A copy: what other workers computed arrives read-only, a type of its own.
        exponents = exponents.astype(np.int32)
    elif known is None:
        scaling = _describe_scaling(entries, across, shifts, rule)
    else:
        largest, squares = (t.reshape(-1) for t in known[:2])
        chosen = largest, squares, numbers_of(rule)
    columns, parts = _NO_COLUMNS, 1 if across else entries.shape[3]
    if shifts is not None:
        columns = column_factors(shifts, parts)
    given = entries, across, *x.shape[-2:], columns
    return given, exponents, chosen, scaling, forms[conjugate]


def _describe_scaling(
    x: Array, across: bool, shifts: Array | None, rule: ScalingRule
) -> tuple[Any, ...]:
    """List what kernels take of exponents that are yet to be chosen."""
    char = x.dtype.char
    columns = UNSHIFTED[char]
    if shifts is not None:
        parts = 1 if across else x.shape[3]
        columns = tuple(column_factors(shifts, parts, t) for t in (x.dtype, np.float64))
    return *columns, FORMATS[char][0], numbers_of(rule)


@inner
def _find_factors(given, exponents, known, scaling, lo, hi, start, end, factors, sums):
    """Find factors[t, matrix, row], two of each row of groups start..end of lo..hi.

    given: x, across, rows and what else `quantise_lines` begins with. Exponents are
    chosen, and written, by what is `known` (the largest ones, sums of squares and the
    rule) or by `scaling` (what multiplies each column, in the precision of x and in
    double, the mask of magnitudes and the rule), unless both are None.
    """
    x, across, rows = given[:3]
    if across:
        # The first time of all: rows of x are those of many groups.
        if start > lo:
            return
        end = hi
    groups = -(-rows // GROUP)
    first = start // groups * rows + start % groups * GROUP
    last = end // groups * rows + min(rows, end % groups * GROUP)
    one, two = factors[0].reshape(-1), factors[1].reshape(-1)
    own = slice(first, last)
    e = exponents[own]
    if known is not None:
        largest, squares, (power, leading, bits) = known
        rule_exponents(largest[own], squares[own], power, leading, bits, e)
    if scaling is not None:
        own_columns, columns, mask, (power, leading, bits) = scaling
        # Without extremes no more than the mask is read of the format.
        of_all = False, bits, 0.0, (mask, mask[0], 0)
        found = exponents, sums, np.empty((0, 3, 0), np.int32), first, last, 0
        if across:
            measure_across(x, own_columns, columns, of_all, *found)
        else:
            measure_along(x, own_columns, columns, of_all, *found)
        rule_exponents(e, sums[0, own], power, leading, bits, e)
    split_powers(e, one[own], two[own])


@kernel
def _write_planes(
    given, exponents, known, scaling, form, weights, reduction, cut, out, lo, hi, found
):
    """Write the planes of groups lo..hi, some lines at a time."""
    (x, across, rows), (strip, each) = given[:3], cut
    # Factors of rows, copies, and words of lines and of one more.
    factors, copy = np.empty((2, len(x), rows)), np.empty(COPY)
    sums = np.zeros((1, 0 if scaling is None else len(x) * rows), np.int64)
    orders = form[1] * x.shape[3]
    words = found[: (_LINES + 1) * orders * _LINE]
    words = words.reshape(_LINES + 1, orders, DEPTH, GROUP)
    entries = reduction[x.shape[3] - 1]
    # Columns of rows that lie side by side are pages: some of them for a while.
    strip = max(strip, _PAGE) if across else strip
    width = min(_LINES, each)
    together = _LINES // width
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        where = lo, hi, first, last, factors, sums
        _find_factors(given, exponents, known, scaling, *where)
        for start in range(0, each, width):
            for group in range(first, last, together):
                # Lines from `start` on of one group, or all of a few.
                end = min(last, group + together) * each - each
                lines = group * each + start, end + min(each, start + _LINES)
                quantise_lines(*given, factors, form, *lines, copy, words)
                own = words[: lines[1] - lines[0]]
                weigh_bytes(own, weights, entries, out, lines[0])
