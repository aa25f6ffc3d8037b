"""Encode: entries -> int8 residue planes, quantised once for all of them.

A plane is a weighted sum of the words of each entry, reduced modulo p: by the
microkernel, whose left operand are the weights of the bytes of all planes, or in
float64, where all sums are exact integers below 2^53.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from ....moduli import ResidueSystem, ScalingRule, symmetric_residue
from ....typing import Array
from ...at_once import Known
from ..buffers import take_bytes
from ..compiled import inner, kernel
from ..encoded import BYTE, DEPTH, GROUP, CpuEncoded, as_groups
from ..layout import list_entries
from ..look.norms import column_factors
from ..look.survey import Look
from ..products.packed import multiply_plane_bytes, reduction_table
from ..threads import num_threads, ranges, run_each, scratch
from ..tuning import QUANTISED
from ..units import has_vnni
from .quantise import FLIPPED, WORD_BITS, quantise_groups
from .scale import find_factors, numbers_of, scaling_of
from .weighing import SCALE, weigh_sixteen

# Entries that are weighed while they lie in L1.
_PIECE = 512
_WORD, _WORDS = GROUP * DEPTH, np.dtype(np.int32)
_NO_COLUMNS = column_factors(None)


@dataclass(frozen=True)
class EncodeTables:
    """The residue system as the kernels read it.

    Attributes
    ----------
    forms : two of (float, int, int, bool)
        The sign of imaginary parts, parts of an entry, words of each, and whether the
        system is hexagonal; of entries, and of their conjugates.
    floats : (weights, moduli)
        Weights (planes, parts words) float64 of each word in each plane, modulo p and
        symmetric; moduli (planes,) float64.
    bytes : (weights, starts, reduction)
        Weights (groups of planes, words, 16, 4) int8 of their bytes, in the layout of a
        left operand; starts (planes, padded to whole groups) int32, which take back the
        2^31 that words are too large, and make their sums 2^31 too large; see
        `reduction_table`.
    """

    forms: tuple[tuple[float, int, int, bool], tuple[float, int, int, bool]]
    floats: tuple[Array, Array]
    bytes: tuple[Array, Array, Array]


@cache
def encode_tables(system: ResidueSystem) -> EncodeTables:
    """Tabulate the weights of every word in every plane."""
    # The last word has what is left.
    words = max(1, -(-(system.part_bits - 1) // WORD_BITS))
    largest = isqrt(system.capacity) << system.hexagonal
    assert (largest >> WORD_BITS * (words - 1)) + 1 < 1 << 31
    moduli = [plane.p for plane in system.planes]
    count = system.parts * words
    weights = np.zeros((len(moduli), count), np.int64)
    weights_of_bytes = np.zeros((len(moduli), count, DEPTH), np.int8)
    for row, plane in enumerate(system.planes):
        parts = (plane.re_weight, plane.im_weight)[: system.parts]
        given = [w << WORD_BITS * t for w in parts for t in range(words)]
        weights[row] = [symmetric_residue(w, plane.p) for w in given]
        weights_of_bytes[row] = [
            [symmetric_residue(w << 8 * i, plane.p) for i in range(DEPTH)]
            for w in given
        ]
    starts = np.zeros(-(-len(moduli) // GROUP) * GROUP, np.int64)
    total = weights.sum(axis=1) << 31
    starts[: len(moduli)] = [
        symmetric_residue(-int(t), p) - (1 << 31)
        for t, p in zip(total, moduli, strict=True)
    ]
    form = system.parts, words, system.hexagonal
    return EncodeTables(
        ((1.0, *form), (-1.0, *form)),
        (weights.astype(np.float64), np.array(moduli, np.float64)),
        (
            as_groups(weights_of_bytes.reshape(len(moduli), count * DEPTH)),
            starts.astype(np.int32),
            reduction_table(moduli),
        ),
    )


# An operand, or a stack: x (..., rows, k); exponents (rows,) int32 of the rows of all
# matrices; whether it is conjugated; shifts (k,) int32 or None; what is known of the
# rows, or None. To make a class of its own takes ten times as long.
Rows = tuple[Array, Array, bool, Array | None, Known | None]


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
    # Both in one allocation: they are given back together.
    memory = take_bytes(plan.nbytes)
    kernel, weights = (
        (_weigh_packed, tables.bytes) if has_vnni() else (_weigh_groups, tables.floats)
    )
    found, given = [], []
    for operand, own in enumerate(plan.operands):
        planes: Array = np.ndarray(own.shape, BYTE, memory, own.start)
        found.append(CpuEncoded(own.rows, own.k, planes, plan.order, own.stack))
        described = _describe(operands[operand], rule, tables.forms)
        given.append((*described, weights, own.cut, planes))

    def write(piece: tuple[int, int, int]) -> None:
        operand, lo, hi = piece
        kernel(*given[operand], lo, hi, scratch(plan.size, _WORDS))

    run_each(write, plan.pieces, plan.work)
    return found


class _RowsPlan(NamedTuple):
    """Sizes of the planes of an operand.

    Attributes
    ----------
    stack, rows, k : tuple of int, int, int
    shape : tuple of int
        Of the planes.
    start : int
        Their first byte, among those of all operands.
    cut : (int, int)
        Groups that are quantised together, and entries of a group.
    """

    stack: tuple[int, ...]
    rows: int
    k: int
    shape: tuple[int, ...]
    start: int
    cut: tuple[int, int]


class _EncodePlan(NamedTuple):
    """Operands that are encoded together, and how their rows are shared.

    Attributes
    ----------
    operands : list of _RowsPlan
    tables : EncodeTables
    order : tuple of int
        Where the planes stand.
    nbytes : int
    size : int
        Words of the groups that are quantised together, at most.
    pieces : list of (operand, first group, last group)
    work : int
        Nanoseconds, roughly.
    """

    operands: list[_RowsPlan]
    tables: EncodeTables
    order: tuple[int, ...]
    nbytes: int
    size: int
    pieces: list[tuple[int, int, int]]
    work: int


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
    end = size = work = 0
    for operand, (*stack, m, k) in enumerate(shapes):
        groups, words = prod(stack) * -(-m // GROUP), -(-k // DEPTH)
        entries, (_, parts, of_part, _) = words * _WORD, tables.forms[0]
        strip = max(1, QUANTISED // max(1, entries))
        start, end = end, end + count * groups * entries
        shape, cut = (count, groups, words, GROUP, DEPTH), (strip, entries)
        operands.append(_RowsPlan(tuple(stack), m, k, shape, start, cut))
        size = max(size, strip * entries * parts * of_part)
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
    if isinstance(known, Look):
        entries, across = known.entries, known.across
    else:
        entries, across = list_entries(x)
    if rule is None:
        # A copy: what other workers computed arrives read-only, a type of its own.
        exponents = exponents.astype(np.int32)
    elif known is None:
        scaling = scaling_of(entries, across, shifts, rule)
    else:
        sums = known.sums if isinstance(known, Look) else known.squares.reshape(1, -1)
        chosen = known.largest.reshape(-1), sums, numbers_of(rule)
    columns = _NO_COLUMNS if shifts is None else column_factors(shifts)
    given = entries, across, *x.shape[-2:], columns
    return given, exponents, chosen, scaling, forms[conjugate]


@kernel
def _weigh_packed(  # type: ignore[no-untyped-def]
    given, exponents, known, scaling, form, weights, cut, out, lo, hi, found
):
    """Write the planes of groups lo..hi by the microkernel, a strip at a time."""
    strip, entries = cut
    factors = np.empty((2, len(given[0]), given[2]))
    each, flat = form[1] * form[2], out.reshape(len(out), out.size // len(out))
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        find_factors(given, exponents, known, scaling, lo, hi, first, last, factors)
        groups = (last - first) * entries // GROUP
        words = found[: groups * each * GROUP].reshape(groups, each, GROUP)
        quantise_groups(*given, factors, *form, first, last, words)
        target = flat[:, first * entries : last * entries]
        multiply_plane_bytes(weights[0], words, weights[1], weights[2], target)


@kernel
def _weigh_groups(  # type: ignore[no-untyped-def]
    given, exponents, known, scaling, form, weights, cut, out, lo, hi, found
):
    """Write them in float64."""
    strip, entries = cut
    factors = np.empty((2, len(given[0]), given[2]))
    each, flat = form[1] * form[2], out.reshape(len(out), out.size // len(out))
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        find_factors(given, exponents, known, scaling, lo, hi, first, last, factors)
        groups = (last - first) * entries // GROUP
        words = found[: groups * each * GROUP].reshape(groups, each, GROUP)
        quantise_groups(*given, factors, *form, first, last, words)
        target = flat[:, first * entries : last * entries]
        _weigh_words(words, weights[0], weights[1], target)


@inner
def _weigh_words(words, weights, moduli, out):  # type: ignore[no-untyped-def]
    """out[plane, entry] = the weighted sum of the words of each entry, modulo p."""
    count, last = weights.shape[1], len(moduli) - 1
    split = np.empty((count, _PIECE // GROUP + 1, GROUP))
    address, step, distance = split.ctypes.data, split.strides[1], split.strides[0]
    for start in range(0, out.shape[1], _PIECE):
        groups = min(_PIECE, out.shape[1] - start) // GROUP
        for g in range(groups):
            for t in range(count):
                source = words[start // GROUP + g, t]
                for r in range(GROUP):
                    at = r % DEPTH * (GROUP // DEPTH) + r // DEPTH
                    split[t, g, at] = SCALE * np.int32(source[r] ^ FLIPPED)
        for plane in range(0, last + 1, 2):
            one, other = moduli[plane], moduli[min(plane + 1, last)]
            x = weights[plane].ctypes.data, weights[min(plane + 1, last)].ctypes.data
            y = out[plane].ctypes.data, out[min(plane + 1, last)].ctypes.data
            for g in range(groups):
                at = start + g * GROUP
                weigh_sixteen(
                    address + g * step,
                    distance,
                    count,
                    (x[0], y[0] + at, SCALE * one, 1.0 / (SCALE * one)),
                    (x[1], y[1] + at, SCALE * other, 1.0 / (SCALE * other)),
                )
