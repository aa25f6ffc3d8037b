"""Encode: entries -> int8 residue planes, quantised once for all of them.

A plane is a weighted sum of the words of each entry, reduced modulo p: by the
microkernel, whose left operand are the weights of the bytes of all planes, or in
float64, where all sums are exact integers below 2^53.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import isqrt, prod
from typing import NamedTuple

import numpy as np

from ...moduli import ResidueSystem, ScalingRule, symmetric_residue
from ...typing import Array
from .buffers import empty
from .compiled import inner, kernel
from .encoded import DEPTH, GROUP, CpuEncoded, as_groups
from .layout import as_parts, listed, read_only, straighten
from .norms import column_factors, power_factors
from .packed import multiply_plane_bytes, reduction_table
from .quantise import FLIPPED, WORD_BITS, quantise_groups
from .scale import scale_groups, scaling_of
from .threads import ranges, run_each, scratch
from .tuning import QUANTISED
from .units import has_vnni
from .weighing import SCALE, weigh_sixteen

# Entries that are weighed while they lie in L1.
_PIECE = 512
_WORDS = np.dtype(np.int32)


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
        What takes back the 2^31 that words are too large.
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
    starts = np.zeros(-(-len(moduli) // GROUP) * GROUP, np.int32)
    total = weights.sum(axis=1) << 31
    starts[: len(moduli)] = [
        symmetric_residue(-int(t), p) for t, p in zip(total, moduli, strict=True)
    ]
    return EncodeTables(
        (system.parts, words, system.hexagonal),
        np.array(moduli, np.float64),
        weights.astype(np.float64),
        as_groups(weights_of_bytes.reshape(len(moduli), count * DEPTH)),
        starts,
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
    pieces: list[tuple[Callable[[int, int], None], int, int]] = []
    found, work = [], 0
    for rows in operands:
        *stack, m, k = rows.x.shape
        shape = len(system.planes), prod(stack) * -(-m // GROUP), -(-k // DEPTH)
        planes = empty((*shape, GROUP, DEPTH), np.int8)
        found.append(CpuEncoded(m, k, planes, _places(shape[0]), tuple(stack)))
        if planes.size:
            write = _writer(rows, planes, system, rule)
            each = shape[2] * GROUP * (shape[0] + (0 if rule is None else 4))
            pieces += [(write, *r) for r in ranges(shape[1], each=each)]
            work += shape[1] * each
    run_each(lambda piece: piece[0](*piece[1:]), pieces, work)
    return found


@cache
def _places(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def _writer(
    rows: Rows, planes: Array, system: ResidueSystem, rule: ScalingRule | None
) -> Callable[[int, int], None]:
    """Return what writes groups lo..hi of the planes."""
    source, across = straighten(rows.x)
    x, scaling = read_only(as_parts(listed(source))), None
    m, k = rows.x.shape[-2:]
    if rule is None:
        factors = power_factors(rows.exponents).reshape(2, -1, m)
    else:
        factors = np.empty((2, len(x), m))
        scaling = scaling_of(x, across, rows.shifts, rule, rows.exponents)
    tables, sign = encode_tables(system), -1.0 if rows.conjugate else 1.0
    given = x, across, m, k, column_factors(rows.shifts), factors, sign, *tables.form
    per_group, out = planes.shape[2] * GROUP * DEPTH, planes.reshape(len(planes), -1)
    strip = max(1, QUANTISED // per_group)
    shape = strip * per_group // GROUP, tables.form[0] * tables.form[1], GROUP
    kernel, weights = (
        (_weigh_packed, (tables.bytes, tables.starts, tables.reduction))
        if has_vnni()
        else (_weigh_groups, (tables.weights, tables.moduli))
    )

    def write(lo: int, hi: int) -> None:
        found = scratch(shape, _WORDS)
        kernel(given, scaling, weights, strip, per_group, lo, hi, found, out)

    return write


@kernel
def _weigh_packed(given, scaling, weights, strip, per_group, lo, hi, found, out):  # type: ignore[no-untyped-def]
    """Write the planes of groups lo..hi by the microkernel, a strip at a time."""
    if scaling is not None:
        scale_groups(given[0], given[1], given[5], scaling, lo, hi)
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        words = found[: (last - first) * per_group // GROUP]
        quantise_groups(*given, first, last, words)
        target = out[:, first * per_group : last * per_group]
        multiply_plane_bytes(weights[0], words, weights[1], weights[2], target)


@kernel
def _weigh_groups(given, scaling, weights, strip, per_group, lo, hi, found, out):  # type: ignore[no-untyped-def]
    """Write them in float64."""
    if scaling is not None:
        scale_groups(given[0], given[1], given[5], scaling, lo, hi)
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        words = found[: (last - first) * per_group // GROUP]
        quantise_groups(*given, first, last, words)
        target = out[:, first * per_group : last * per_group]
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
