"""Quantise: entries -> the words of ``x' = rint(x 2^s)``, in the order of the planes.

Every 16 rows by 4 columns lie together, as in `CpuEncoded`: of such an order a plane is
made entry by entry, without another thought of rows.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiled import inner
from ..encoded import DEPTH, GROUP
from ..hexagonal import nearest_points
from ..width import take_widest

# x' = sum_t word[t] 2^(30 t), |word[t]| <= 2^29 except the last.
WORD_BITS = 30
# Words are kept with these bits changed: their bytes, less 128, are then those of the
# word plus 2^31, as the microkernel wants them.
FLIPPED = 0x808080
# Entries of a group that a word of the planes holds, and those that are quantised while
# they lie in L1: rows of 3 KB, one below the other, so that what is stored has no lower
# 12 bits of an address in common with what is loaded soon after, which has to wait.
_WORD, _PIECE = GROUP * DEPTH, 384

# Contraction alone: every sum here is an exact integer, fused or not.
_EXACT = {"contract"}


@inner(fastmath=_EXACT)
def _quantise_piece(values, factor1, factor2, count, sign, high):  # type: ignore[no-untyped-def]
    """Round values to the nearest integers."""
    take_widest()
    for c in range(count):
        f = factor1[c]
        v = np.rint(values[c] * f * factor2[c])
        high[c] = 0.0 if f == 0.0 else sign * v


@inner(fastmath=_EXACT)
def _split_piece(split, first, words, count):  # type: ignore[no-untyped-def]
    """Cut the last of split[first:first + words], least significant first."""
    take_widest()
    high = split[first + words - 1]
    for t in range(words - 1):
        low = split[first + t]
        for c in range(count):
            v = high[c]
            h = np.rint(v * 2.0**-WORD_BITS)
            low[c] = v - h * 2.0**WORD_BITS
            high[c] = h


@inner
def _add_piece(low, rest, count):  # type: ignore[no-untyped-def]
    """low += rest, by a loop: the sum of arrays takes 3 s more to compile."""
    take_widest()
    for c in range(count):
        low[c] += rest[c]


@intrinsic
def _store_sixteen(typing_context: Any, values: Any, out: Any) -> Any:
    """out[r] = values[r], FLIPPED, of 16 float64 at an address, as int32 to another.

    One by one, as the compiler leaves such a loop, they took five times as long.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        doubles = ir.VectorType(ir.DoubleType(), GROUP)
        words = ir.VectorType(ir.IntType(32), GROUP)
        source, target = (
            builder.inttoptr(address, kind.as_pointer())
            for address, kind in zip(args, (doubles, words), strict=True)
        )
        given = builder.load(source)
        given.align = 8
        flipped = ir.Constant(words, [FLIPPED] * GROUP)
        found = builder.xor(builder.fptosi(given, words), flipped)
        builder.store(found, target).align = 4
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@inner
def _store_word(values, count, out, at, t):  # type: ignore[no-untyped-def]
    """out[at + c // 16, t, c % 16] = values[c], some bits changed."""
    source, step = values.ctypes.data, out.strides[0]
    target = out.ctypes.data + at * step + t * out.strides[1]
    for g in range(count // GROUP):
        _store_sixteen(source + g * GROUP * values.itemsize, target + g * step)


@inner
def _load_along(x, row, rows, k_lo, k_hi, out):  # type: ignore[no-untyped-def]
    """out[part, w, r, t] = x[row + r, k_lo + 4 w + t, part]; zeros past the ends."""
    last = x.shape[2] - 1
    # Both parts at once, or the one that there is twice: in turn took twice the time.
    re, im = out[0], out[last]
    whole = (k_hi - k_lo) // DEPTH
    for r in range(GROUP):
        if r >= rows:
            re[:, r], im[:, r] = 0.0, 0.0
            continue
        source = x[row + r]
        for w in range(whole):
            for t in range(DEPTH):
                c = k_lo + DEPTH * w + t
                re[w, r, t], im[w, r, t] = source[c, 0], source[c, last]
        if whole < re.shape[0]:
            for t in range(DEPTH):
                c = k_lo + DEPTH * whole + t
                re[whole, r, t] = source[c, 0] if c < k_hi else 0.0
                im[whole, r, t] = source[c, last] if c < k_hi else 0.0


@inner
def _load_across(x, row, rows, k_lo, k_hi, out):  # type: ignore[no-untyped-def]
    """out[part, w, r, t] = x[k_lo + 4 w + t, row + r, part]; zeros past the ends."""
    last = x.shape[2] - 1
    re, im = out[0], out[last]
    for w in range(re.shape[0]):
        for t in range(DEPTH):
            c = k_lo + DEPTH * w + t
            if c >= k_hi:
                re[w, :, t], im[w, :, t] = 0.0, 0.0
                continue
            source = x[c, row : row + rows]
            for r in range(rows):
                re[w, r, t], im[w, r, t] = source[r, 0], source[r, last]
            for r in range(rows, GROUP):
                re[w, r, t], im[w, r, t] = 0.0, 0.0


@inner
def _shift_piece(values, columns, k_lo, k_hi):  # type: ignore[no-untyped-def]
    """values[part, w, r, t] *= columns[k_lo + 4 w + t]."""
    for part in range(values.shape[0]):
        for w in range(values.shape[1]):
            for t in range(DEPTH):
                c = k_lo + DEPTH * w + t
                factor = columns[c] if c < k_hi else 0.0
                for r in range(GROUP):
                    values[part, w, r, t] *= factor


@inner
def quantise_groups(  # type: ignore[no-untyped-def]
    x, across, rows, k, columns, factors, im_sign, parts, count, hexagonal, lo, hi, out
):
    """out[entry // 16, word, entry % 16]: the words of groups lo..hi, FLIPPED.

    Of matrices that begin with a group each: x is (matrices, rows, k, parts), or
    (matrices, k, rows, parts) if `across`; columns are (k,), or none; factors are
    (2, matrices, rows); `count` words of each of `parts`, those of Re first; Im is 0
    where x has none.
    """
    lines = np.zeros((6 + 2 * count, _PIECE))
    factor1, factor2, values, rest, split = (
        lines[0],
        lines[1],
        lines[2:4],
        lines[4:6],
        lines[6:],
    )
    by_word = values.reshape(2, -1, GROUP, DEPTH)
    words, most = -(-k // DEPTH), _PIECE // _WORD
    groups, at = -(-rows // GROUP), np.int64(0)
    for group in range(lo, hi):
        matrix, row = group // groups, group % groups * GROUP
        own_rows = min(GROUP, rows - row)
        for c in range(_WORD):
            r = row + min(c // DEPTH, own_rows - 1)
            factor1[c], factor2[c] = factors[0, matrix, r], factors[1, matrix, r]
        for c in range(_WORD, min(_PIECE, words * _WORD)):
            factor1[c], factor2[c] = factor1[c - _WORD], factor2[c - _WORD]
        for word in range(0, words, most):
            own = min(most, words - word)
            entries = own * _WORD
            k_lo, k_hi = word * DEPTH, min(k, (word + own) * DEPTH)
            where = x[matrix], row, own_rows, k_lo, k_hi, by_word[:, :own]
            if across:
                _load_across(*where)
            else:
                _load_along(*where)
            if columns.size > 0:
                _shift_piece(by_word[:, :own], columns, k_lo, k_hi)
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
                    _add_piece(split[first], rest[part], entries)
                for t in range(first, first + count):
                    _store_word(split[t], entries, out, at, t)
            at += entries // GROUP
