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
from ..buffers import empty
from ..compiled import inner, kernel
from ..encoded import BYTE, DEPTH, GROUP, CpuEncoded, as_groups
from ..layout import list_entries
from ..look.norms import column_factors
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


@dataclass(frozen=True)
class EncodeTables:
    """The residue system as the kernels read it.

    Attributes
    ----------
    form : (int, int, bool)
        Parts of an entry, words of each, and whether the system is hexagonal.
    floats : (weights, moduli)
        Weights (planes, parts words) float64 of each word in each plane, modulo p and
        symmetric; moduli (planes,) float64.
    bytes : (weights, starts, reduction)
        Weights (groups of planes, words, 16, 4) int8 of their bytes, in the layout of a
        left operand; starts (planes, padded to whole groups) int32, which take back the
        2^31 that words are too large, and make their sums 2^31 too large; see
        `reduction_table`.
    """

    form: tuple[int, int, bool]
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
    return EncodeTables(
        (system.parts, words, system.hexagonal),
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
    shapes = tuple([rows[0].shape for rows in operands])
    scaled = rule is not None and operands[0][4] is None
    plan = _plan(shapes, system, scaled, num_threads())
    tables = plan.tables
    # Both in one allocation: they are given back together.
    memory = empty((plan.nbytes,), BYTE)
    kernel, weights = (
        (_weigh_packed, tables.bytes) if has_vnni() else (_weigh_groups, tables.floats)
    )
    found, given = [], []
    for rows, own in zip(operands, plan.operands, strict=True):
        planes = memory[own.place].reshape(own.shape)
        found.append(CpuEncoded(own.rows, own.k, planes, plan.order, own.stack))
        given.append((*_describe(rows, tables.form, rule), weights, own.cut))

    def write(piece: tuple[int, int, int]) -> None:
        operand, lo, hi = piece
        words = scratch(plan.operands[operand].size, _WORDS)
        kernel(*given[operand], lo, hi, words, found[operand].planes)

    run_each(write, plan.pieces, plan.work)
    return found


class _RowsPlan(NamedTuple):
    """Sizes of the planes of an operand.

    Attributes
    ----------
    stack, rows, k : tuple of int, int, int
    shape : tuple of int
        Of the planes.
    place : slice
        Their bytes, among those of all operands.
    cut : (int, int)
        Groups that are quantised together, and entries of a group.
    size : int
        Words of these groups.
    """

    stack: tuple[int, ...]
    rows: int
    k: int
    shape: tuple[int, ...]
    place: slice
    cut: tuple[int, int]
    size: int


class _EncodePlan(NamedTuple):
    """Operands that are encoded together, and how their rows are shared.

    Attributes
    ----------
    operands : list of _RowsPlan
    tables : EncodeTables
    order : tuple of int
        Where the planes stand.
    nbytes : int
    pieces : list of (operand, first group, last group)
    work : int
        Nanoseconds, roughly.
    """

    operands: list[_RowsPlan]
    tables: EncodeTables
    order: tuple[int, ...]
    nbytes: int
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
    end = work = 0
    for operand, (*stack, m, k) in enumerate(shapes):
        groups, words = prod(stack) * -(-m // GROUP), -(-k // DEPTH)
        entries, (parts, of_part, _) = words * _WORD, tables.form
        strip = max(1, QUANTISED // max(1, entries))
        start, end = end, end + count * groups * entries
        shape, place = (count, groups, words, GROUP, DEPTH), slice(start, end)
        size = strip * entries * parts * of_part
        own = _RowsPlan(tuple(stack), m, k, shape, place, (strip, entries), size)
        operands.append(own)
        each = words * GROUP * (count + 4 * scaled)
        if end > start:
            cut = ranges(groups, each=each, threads=threads)
            pieces += [(operand, *ends) for ends in cut]
            work += groups * each
    return _EncodePlan(operands, tables, tuple(range(count)), end, pieces, work)


def _describe(
    rows: Rows, form: tuple[int, int, bool], rule: ScalingRule | None
) -> tuple[Any, ...]:
    """List what kernels take of an operand, its exponents and how they are chosen."""
    x, exponents, conjugate, shifts, known = rows
    entries, across = (known and known.entries) or list_entries(x)
    scaling = chosen = None
    if rule is None:
        # A copy: what other workers computed arrives read-only, a type of its own.
        exponents = exponents.astype(np.int32)
    elif known is None:
        scaling = scaling_of(entries, across, shifts, rule)
    else:
        chosen = known.largest.reshape(-1), known.squares.reshape(-1), numbers_of(rule)
    given = entries, across, *x.shape[-2:], column_factors(shifts)
    return given, exponents, chosen, scaling, (-1.0 if conjugate else 1.0, *form)


@kernel
def _weigh_packed(  # type: ignore[no-untyped-def]
    given, exponents, known, scaling, form, weights, cut, lo, hi, found, out
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
    given, exponents, known, scaling, form, weights, cut, lo, hi, found, out
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
