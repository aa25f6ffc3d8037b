"""Encode: entries -> int8 residue planes, quantised once for all of them.

A plane is a weighted sum of the words of each entry, reduced modulo p: by the
microkernel, whose left operand are the weights of the bytes of all planes, or in
float64, where all sums are exact integers below 2^53.
"""

from dataclasses import dataclass
from functools import cache
from math import isqrt

import numpy as np

from ...moduli import ResidueSystem, symmetric_residue
from ...typing import Array
from .compiled import inner, kernel
from .encoded import DEPTH, GROUP, as_groups
from .packed import multiply_plane_bytes, reduction_table
from .quantise import FLIPPED, WORD_BITS, quantise_groups
from .threads import ranges, run_each, scratch
from .tuning import QUANTISED
from .units import has_vnni
from .weighing import SCALE, weigh_sixteen

# Entries that are weighed while they lie in L1.
_PIECE = 512


@dataclass(frozen=True)
class EncodeTables:
    """The residue system as the kernels read it.

    Attributes
    ----------
    words : int
        Of each part of an entry.
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

    words: int
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
        words,
        np.array(moduli, np.float64),
        weights.astype(np.float64),
        as_groups(weights_of_bytes.reshape(len(moduli), count * DEPTH)),
        starts,
        reduction_table(moduli),
    )


def encode_planes(
    x: Array,
    across: bool,
    columns: Array,
    factors: Array,
    im_sign: float,
    system: ResidueSystem,
    planes: Array,
) -> None:
    """Write the planes of a whole operand.

    Parameters
    ----------
    x : (matrices, rows, k, parts) float, or (matrices, k, rows, parts) if `across`
    across : bool
    columns : (k,) or (0,) float64
        What multiplies each column first, if anything does.
    factors : (2, matrices, rows) float64
        Whose product multiplies each row; 0 for those that become zero.
    im_sign : float
        -1 to conjugate.
    system : ResidueSystem
    planes : (planes, groups, words, 16, 4) int8
        Written to.
    """
    tables = encode_tables(system)
    k, rows = x.shape[1:3] if across else x.shape[2:0:-1]
    count, groups, words = planes.shape[:3]
    per_group = words * GROUP * DEPTH
    out = planes.reshape(count, groups * per_group)
    form = system.parts, tables.words, system.hexagonal
    given = x, across, rows, k, columns, factors, im_sign, *form
    number = system.parts * tables.words
    strip = max(1, QUANTISED // max(1, per_group))
    weigh = _weigh_groups
    weights: tuple[Array, ...] = tables.weights, tables.moduli
    if has_vnni():
        weigh = _weigh_packed
        weights = tables.bytes, tables.starts, tables.reduction

    def write(groups: tuple[int, int]) -> None:
        shape = strip * per_group // GROUP, number, GROUP
        found = scratch(shape, np.dtype(np.int32))
        weigh(given, weights, strip, per_group, *groups, found, out)

    run_each(write, ranges(groups, each=per_group * count // 4))


@kernel
def _weigh_packed(given, weights, strip, per_group, lo, hi, found, out):  # type: ignore[no-untyped-def]
    """Write the planes of groups lo..hi by the microkernel, a strip at a time."""
    for first in range(lo, hi, strip):
        last = min(hi, first + strip)
        words = found[: (last - first) * per_group // GROUP]
        quantise_groups(*given, first, last, words)
        target = out[:, first * per_group : last * per_group]
        multiply_plane_bytes(weights[0], words, weights[1], weights[2], target)


@kernel
def _weigh_groups(given, weights, strip, per_group, lo, hi, found, out):  # type: ignore[no-untyped-def]
    """Write them in float64."""
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
