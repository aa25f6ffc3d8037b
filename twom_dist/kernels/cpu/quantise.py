"""Quantise: entries -> the words of ``x' = rint(x 2^s)``, in the order of the planes.

Every 16 rows by 4 columns lie together, as in `CpuEncoded`: of such an order a plane is
made entry by entry, without another thought of rows.
"""

import numpy as np
from numba import njit

from .encoded import DEPTH, GROUP
from .hexagonal import nearest_points

# x' = sum_t word[t] 2^(30 t), |word[t]| <= 2^29 but for the last.
WORD_BITS = 30
# Words are kept with these bits changed: their bytes, less 128, are then those of the
# word plus 2^31, as the microkernel wants them.
FLIPPED = 0x808080
# Entries that are quantised while they lie in L1.
_PIECE = 512

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
def _split_piece(split, first, words, count):  # type: ignore[no-untyped-def]
    """Cut the last of split[first:first + words], least significant first."""
    high = split[first + words - 1]
    for t in range(words - 1):
        low = split[first + t]
        for c in range(count):
            v = high[c]
            h = np.rint(v * 2.0**-WORD_BITS)
            low[c] = v - h * 2.0**WORD_BITS
            high[c] = h


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
def quantise_groups(  # type: ignore[no-untyped-def]
    x, across, rows, k, factors, im_sign, parts, count, hexagonal, lo, hi, out
):
    """out[entry // 16, word, entry % 16]: the words of groups lo..hi, FLIPPED.

    Of matrices that begin with a group each: x is (matrices, rows, k, parts), or
    (matrices, k, rows, parts) if `across`; factors are (2, matrices, rows); `count`
    words of each of `parts`, those of Re first; Im is 0 where x has none.
    """
    values, rest = np.zeros((2, _PIECE)), np.empty((2, _PIECE))
    factor1, factor2 = np.zeros(_PIECE), np.zeros(_PIECE)
    split = np.zeros((2 * count, _PIECE))
    by_word = values.reshape(2, -1, GROUP, DEPTH)
    words, most = -(-k // DEPTH), _PIECE // (GROUP * DEPTH)
    groups, at = -(-rows // GROUP), 0
    for group in range(lo, hi):
        matrix, row = group // groups, group % groups * GROUP
        own_rows = min(GROUP, rows - row)
        for c in range(_PIECE):
            r = row + min(c % (GROUP * DEPTH) // DEPTH, own_rows - 1)
            factor1[c], factor2[c] = factors[0, matrix, r], factors[1, matrix, r]
        for word in range(0, words, most):
            own = min(most, words - word)
            entries = own * GROUP * DEPTH
            k_lo, k_hi = word * DEPTH, min(k, (word + own) * DEPTH)
            for part in range(min(parts, x.shape[3])):
                target = by_word[part, :own]
                if across:
                    _load_across(x[matrix], row, own_rows, k_lo, k_hi, part, target)
                else:
                    _load_along(x[matrix], row, own_rows, k_lo, k_hi, part, target)
            if hexagonal:
                g, h = split[count - 1], split[2 * count - 1]
                nearest_points(values, factor1, factor2, entries, im_sign, g, h, rest)
            for part in range(parts):
                first = part * count
                if not hexagonal:
                    sign = im_sign if part == 1 else 1.0
                    high = split[first + count - 1]
                    own_values = values[part]
                    _quantise_piece(own_values, factor1, factor2, entries, sign, high)
                _split_piece(split, first, count, entries)
                if hexagonal:
                    # |rest| <= 2 |r| + 1 <= 2^28 + 1
                    split[first, :entries] += rest[part, :entries]
                for t in range(first, first + count):
                    _store_word(split[t], entries, out[at:, t])
            at += entries // GROUP


@njit(nogil=True, cache=True)
def _store_word(values, count, out):  # type: ignore[no-untyped-def]
    """out[c // 16, c % 16] = values[c], some bits changed."""
    for g in range(count // GROUP):
        target, source = out[g], values[g * GROUP : (g + 1) * GROUP]
        for r in range(GROUP):
            target[r] = np.int32(source[r]) ^ FLIPPED
