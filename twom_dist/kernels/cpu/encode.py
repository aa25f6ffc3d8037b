"""Encode: complex tile -> int8 residue planes, one pass over the data.

A row piece is quantised once into split float64 integers, then every plane is formed
from them while they lie in L1. All sums are exact integers below 2^53.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit

from ...moduli import ResidueSystem, symmetric_residue
from ...typing import Array
from .encoded import DEPTH, GROUP
from .hexagonal import nearest_points

# x' = sum_t split[t] 2^(30 t), |split[t]| <= 2^31. A plane is a sum of 2 S of them
# with symmetric weights below 2^7: |y| < 2^42 for S <= 8 splits (R < 2^240).
SPLIT_BITS = 30
_GROUP = 4
# Longer pieces leave L1, shorter ones write too little of a plane at once: on a Zen 4
# core 2048^2 complex values took 0.13, 0.11, 0.08, 0.09 s at 128, 256, 512, 1024.
_PIECE = 512


@dataclass(frozen=True)
class EncodeTables:
    """The residue system as the arrays that the kernel reads.

    ``weights[plane, part * splits + t]`` is the plane's weight of that part times
    2^(30 t), modulo p and symmetric; padded with zeros to whole groups.
    """

    plane_moduli: Array
    weights: Array
    splits: int


@cache
def encode_tables(system: ResidueSystem) -> EncodeTables:
    """Tabulate the weights of every split in every plane."""
    # The last split has what is left, up to a bit more.
    splits = max(1, -(-(system.part_bits - 1) // SPLIT_BITS))
    padded = -(-system.parts * splits // _GROUP) * _GROUP
    weights = np.zeros((len(system.planes), padded))
    for row, plane in zip(weights, system.planes, strict=True):
        for part in range(system.parts):
            weight = (plane.re_weight, plane.im_weight)[part]
            for t in range(splits):
                w = symmetric_residue(weight << SPLIT_BITS * t, plane.p)
                row[part * splits + t] = w
    moduli = np.array([plane.p for plane in system.planes], dtype=np.float64)
    return EncodeTables(moduli, weights, splits)


# Contraction alone: every sum here is an exact integer, fused or not.
_EXACT = {"contract"}


@njit(nogil=True, cache=True, fastmath=_EXACT)
def _quantise_piece(values, factor1, factor2, count, sign, high):  # type: ignore[no-untyped-def]
    """Round values to the nearest integers."""
    for c in range(count):
        f = factor1[c]
        v = np.rint(values[c] * f * factor2[c])
        high[c] = 0.0 if f == 0.0 else sign * v


@njit(nogil=True, cache=True, fastmath=_EXACT)
def _split_piece(split, first, splits, count):  # type: ignore[no-untyped-def]
    """Cut the last of split[first:first + splits], least significant first."""
    high = split[first + splits - 1]
    for t in range(splits - 1):
        low = split[first + t]
        for c in range(count):
            v = high[c]
            h = np.rint(v * 2.0**-SPLIT_BITS)
            low[c] = v - h * 2.0**SPLIT_BITS
            high[c] = h


@njit(nogil=True, cache=True, fastmath=_EXACT)
def _add_group(split, first, w, count, y):  # type: ignore[no-untyped-def]
    """y += the weighted sum of four splits."""
    s0, s1, s2, s3 = split[first], split[first + 1], split[first + 2], split[first + 3]
    w0, w1, w2, w3 = w[first], w[first + 1], w[first + 2], w[first + 3]
    for c in range(count):
        y[c] += w0 * s0[c] + w1 * s1[c] + w2 * s2[c] + w3 * s3[c]


@njit(nogil=True, cache=True, fastmath=_EXACT)
def _reduce_group(split, first, w, y, p, out):  # type: ignore[no-untyped-def]
    """out = y + the last four splits (mod p), symmetric."""
    s0, s1, s2, s3 = split[first], split[first + 1], split[first + 2], split[first + 3]
    w0, w1, w2, w3 = w[first], w[first + 1], w[first + 2], w[first + 3]
    inverse = 1.0 / p
    for c in range(out.size):
        v = y[c] + w0 * s0[c] + w1 * s1[c] + w2 * s2[c] + w3 * s3[c]
        v -= np.rint(v * inverse) * p
        # The low byte: a tie of p = 256 gives +128, which is -128.
        out[c] = np.int8(np.int32(v))


@njit(nogil=True, cache=True)
def _load_along(x, row, rows, k_lo, k_hi, part, out):  # type: ignore[no-untyped-def]
    """out[w, r, t] = x[row + r, k_lo + 4 w + t, part]; zeros past the ends."""
    for r in range(GROUP):
        if r >= rows:
            out[:, r] = 0.0
            continue
        source = x[row + r]
        whole = (k_hi - k_lo) // DEPTH
        for w in range(whole):
            for t in range(DEPTH):
                out[w, r, t] = source[k_lo + DEPTH * w + t, part]
        if whole < out.shape[0]:
            for t in range(DEPTH):
                c = k_lo + DEPTH * whole + t
                out[whole, r, t] = source[c, part] if c < k_hi else 0.0


@njit(nogil=True, cache=True)
def _load_across(x, row, rows, k_lo, k_hi, part, out):  # type: ignore[no-untyped-def]
    """out[w, r, t] = x[k_lo + 4 w + t, row + r, part]; zeros past the ends."""
    for w in range(out.shape[0]):
        for t in range(DEPTH):
            c = k_lo + DEPTH * w + t
            if c >= k_hi:
                out[w, :, t] = 0.0
                continue
            source = x[c, row : row + rows, part]
            for r in range(rows):
                out[w, r, t] = source[r]
            for r in range(rows, GROUP):
                out[w, r, t] = 0.0


@njit(nogil=True, cache=True)
def encode_groups(  # type: ignore[no-untyped-def]
    x,
    across,
    rows,
    k,
    factors,
    im_sign,
    plane_moduli,
    weights,
    splits,
    hexagonal,
    lo,
    hi,
    first_word,
    last_word,
    out,
):
    """Write words first..last of groups lo..hi of out[plane, group, 64 words bytes].

    x is (rows, k, parts), or (k, rows, parts) if `across`; factors are (2, rows).
    """
    padded = weights.shape[1]
    values, rest = np.zeros((2, _PIECE)), np.empty((2, _PIECE))
    factor1, factor2 = np.zeros(_PIECE), np.zeros(_PIECE)
    split = np.zeros((padded, _PIECE))
    y = np.zeros(_PIECE)
    by_word = values.reshape(2, -1, GROUP, DEPTH)
    words = _PIECE // (GROUP * DEPTH)
    for group in range(lo, hi):
        row = group * GROUP
        count_rows = min(GROUP, rows - row)
        for c in range(_PIECE):
            r = min(c % (GROUP * DEPTH) // DEPTH, count_rows - 1)
            factor1[c], factor2[c] = factors[0, row + r], factors[1, row + r]
        for word in range(first_word, last_word, words):
            own = min(words, last_word - word)
            count = own * GROUP * DEPTH
            k_lo, k_hi = word * DEPTH, min(k, (word + own) * DEPTH)
            for part in range(x.shape[2]):
                target = by_word[part, :own]
                if across:
                    _load_across(x, row, count_rows, k_lo, k_hi, part, target)
                else:
                    _load_along(x, row, count_rows, k_lo, k_hi, part, target)
            if hexagonal:
                g, h = split[splits - 1], split[2 * splits - 1]
                nearest_points(values, factor1, factor2, count, im_sign, g, h, rest)
            for part in range(x.shape[2]):
                first = part * splits
                high = split[first + splits - 1]
                if not hexagonal:
                    sign = im_sign if part == 1 else 1.0
                    _quantise_piece(values[part], factor1, factor2, count, sign, high)
                _split_piece(split, first, splits, count)
                if hexagonal:
                    # |rest| <= 2 |r| + 1 <= 2^28 + 1, the split 2^29 if not the last
                    split[first, :count] += rest[part, :count]
            start = word * GROUP * DEPTH
            for plane in range(plane_moduli.size):
                w = weights[plane]
                if padded > _GROUP:
                    y[:] = 0.0
                for first in range(0, padded - _GROUP, _GROUP):
                    _add_group(split, first, w, count, y)
                last, p = padded - _GROUP, plane_moduli[plane]
                target_plane = out[plane, group, start : start + count]
                _reduce_group(split, last, w, y, p, target_plane)
