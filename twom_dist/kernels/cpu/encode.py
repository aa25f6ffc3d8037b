"""Encode: entries -> int8 residue planes, quantised once for all of them.

A plane is a weighted sum of the words of each entry, reduced modulo p: by the
microkernel, whose left operand are the weights of the bytes of all planes, or in
float64, where all sums are exact integers below 2^53.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import isqrt, prod
from typing import NamedTuple

import numpy as np

from ...moduli import ResidueSystem, ScalingRule, symmetric_residue
from ...typing import Array
from .buffers import empty
from .compiled import inner, kernel
from .encoded import DEPTH, GROUP, CpuEncoded, as_groups
from .layout import listed_parts, straighten
from .norms import column_factors
from .packed import multiply_plane_bytes, reduction_table
from .quantise import FLIPPED, WORD_BITS, quantise_groups
from .scale import find_factors, scaling_of
from .threads import num_threads, ranges, run_each, scratch
from .tuning import QUANTISED
from .units import has_vnni
from .weighing import SCALE, weigh_sixteen

# Entries that are weighed while they lie in L1.
_PIECE = 512
_WORD, _WORDS = GROUP * DEPTH, np.dtype(np.int32)


@dataclass(frozen=True)
class EncodeTables:
    """The residue system as the kernels read it.

    Attributes
    ----------
    form : (int, int, bool)
        Parts of an entry, words of each, and whether the system is hexagonal.
    moduli : (planes,) float64
    weights : (planes, parts words) float64
        Of each word in each plane, modulo p and symmetric.
    bytes : (groups of planes, words, 16, 4) int8
        Those of its bytes, in the layout of a left operand.
    starts : (planes, padded to whole groups) int32
        What takes back the 2^31 that words are too large, and makes their sums 2^31 too
        large.
    reduction : (planes, 4) int32
        See `reduction_table`.
    """

    form: tuple[int, int, bool]
    moduli: Array
    weights: Array
    bytes: Array
    starts: Array
    reduction: Array


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
    return EncodeTables(
        (system.parts, words, system.hexagonal),
        np.array(moduli, np.float64),
        weights.astype(np.float64),
        as_groups(weights_of_bytes.reshape(len(moduli), count * DEPTH)),
        starts.astype(np.int32),
        reduction_table(moduli),
    )


class Rows(NamedTuple):
    """An operand, or a stack.

    Attributes
    ----------
    x : (..., rows, k)
    exponents : (..., rows) int32
    conjugate : bool
    shifts : (k,) int32, optional
    """

    x: Array
    exponents: Array
    conjugate: bool = False
    shifts: Array | None = None


def encode_rows(
    operands: Sequence[Rows], system: ResidueSystem, rule: ScalingRule | None = None
) -> list[CpuEncoded]:
    """Quantise rows and write their planes; both operands share the threads.

    `rule`: if given, the exponents are chosen first, and written.
    """
    places, tables = _places(len(system.planes)), encode_tables(system)
    plans, nbytes, threads = [], 0, num_threads()
    for rows in operands:
        plan = plan_rows(rows.x.shape, system, rule is not None, threads)
        plans.append(plan)
        nbytes += plan.nbytes
    # Both in one allocation: they are given back together.
    memory, at = empty((nbytes,), np.int8), 0
    found, pieces, work = [], [], 0
    for rows, plan in zip(operands, plans, strict=True):
        own = memory[at : at + plan.nbytes]
        at += plan.nbytes
        *stack, m, k = rows.x.shape
        found.append(CpuEncoded(m, k, own.reshape(plan.shape), places, tuple(stack)))
        if plan.nbytes:
            write = _writer(rows, own.reshape(len(places), -1), plan, tables, rule)
            pieces += [(write, lo, hi) for lo, hi in plan.ranges]
            work += plan.work
    run_each(lambda piece: piece[0](*piece[1:]), pieces, work)
    return found


@cache
def _places(count: int) -> tuple[int, ...]:
    return tuple(range(count))


class RowsPlan(NamedTuple):
    """Sizes of the planes of an operand, and how its rows are shared.

    Attributes
    ----------
    shape : tuple of int
        Of the planes.
    nbytes : int
    strip, entries : int
        Groups that are quantised together, and entries of a group.
    words : tuple of int
        Shape of the words of a strip.
    ranges : list of (int, int)
    work : int
        Nanoseconds, roughly.
    """

    shape: tuple[int, ...]
    nbytes: int
    strip: int
    entries: int
    words: tuple[int, ...]
    ranges: list[tuple[int, int]]
    work: int


@lru_cache(maxsize=1024)
def plan_rows(
    shape: tuple[int, ...], system: ResidueSystem, scaled: bool, threads: int
) -> RowsPlan:
    """Plan the planes of an operand of a shape, whose exponents are to be chosen."""
    *stack, m, k = shape
    count, groups, words = (
        len(system.planes),
        prod(stack) * -(-m // GROUP),
        -(-k // DEPTH),
    )
    entries, (parts, of_part, _) = words * _WORD, encode_tables(system).form
    strip = max(1, QUANTISED // max(1, entries))
    each = words * GROUP * (count + 4 * scaled)
    return RowsPlan(
        (count, groups, words, GROUP, DEPTH),
        count * groups * entries,
        strip,
        entries,
        (strip * entries // GROUP, parts * of_part, GROUP),
        ranges(groups, each=each, threads=threads),
        groups * each,
    )


def _writer(
    rows: Rows,
    out: Array,
    plan: RowsPlan,
    tables: EncodeTables,
    rule: ScalingRule | None,
) -> Callable[[int, int], None]:
    """Return what writes groups lo..hi of out[plane, entry]."""
    source, across = straighten(rows.x)
    x, scaling, e = listed_parts(source), None, rows.exponents
    if rule is None:
        # A copy: what other workers computed arrives read-only, a type of its own.
        e = e.astype(np.int32)
    else:
        scaling = scaling_of(x, across, rows.shifts, rule)
    given = x, across, *rows.x.shape[-2:], column_factors(rows.shifts)
    sign = -1.0 if rows.conjugate else 1.0
    kernel, weights = (
        (_weigh_packed, (tables.bytes, tables.starts, tables.reduction))
        if has_vnni()
        else (_weigh_groups, (tables.weights, tables.moduli))
    )
    every = given, e.reshape(-1), scaling, (sign, *tables.form), weights

    def write(lo: int, hi: int) -> None:
        found = scratch(plan.words, _WORDS)
        kernel(*every, plan.strip, plan.entries, lo, hi, found, out)

    return write


@kernel
def _weigh_packed(  # type: ignore[no-untyped-def]
    given, exponents, scaling, form, weights, strip, entries, lo, hi, found, out
):
    """Write the planes of groups lo..hi by the microkernel, a strip at a time."""
    factors = np.empty((2, len(given[0]), given[2]))
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        find_factors(given, exponents, scaling, lo, hi, first, last, factors)
        words = found[: (last - first) * entries // GROUP]
        quantise_groups(*given, factors, *form, first, last, words)
        target = out[:, first * entries : last * entries]
        multiply_plane_bytes(weights[0], words, weights[1], weights[2], target)


@kernel
def _weigh_groups(  # type: ignore[no-untyped-def]
    given, exponents, scaling, form, weights, strip, entries, lo, hi, found, out
):
    """Write them in float64."""
    factors = np.empty((2, len(given[0]), given[2]))
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        find_factors(given, exponents, scaling, lo, hi, first, last, factors)
        words = found[: (last - first) * entries // GROUP]
        quantise_groups(*given, factors, *form, first, last, words)
        target = out[:, first * entries : last * entries]
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
