"""Weighted sums of words modulo p in float64, 16 entries at a time.

In LLVM's own language through Numba: 16 sums side by side hide how long each of them
takes. One after the other, as the compiler leaves such a loop, they took three times as
long.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..compiled import inner, instructions
from ..encoded import DEPTH, GROUP
from ..products.microkernel import Writer

_ADDRESS, _DOUBLE, _WORD = ir.IntType(64), ir.DoubleType(), ir.IntType(32)
_DOUBLES = ir.VectorType(_DOUBLE, GROUP)
_LANES = GROUP // DEPTH
# Entries that are weighed while they lie in L1, and the shape of each of their words.
_ENTRIES = 512
PIECE = _ENTRIES // GROUP + 1, GROUP
# Words are 2^31 too large: this bit is the other one.
_SIGN = np.int32(-(1 << 31))
# Sums are made of four times the words, and one more, which is no tie of any p.
_SCALE = 4.0
# A number below 2^51 is rounded by adding this, and the last bits of the sum are those
# of the integer.
_ROUNDING = 1.5 * 2.0**52
# Four residues, each 128 too large, are the bytes of a word.
_BYTES = [256.0**i for i in range(DEPTH)]
_BIAS = 128.0 * sum(_BYTES)


_OF_MODULUS = types.Tuple((types.intp, types.intp, types.float64, types.float64))


@instructions(given=(*(types.intp,) * 3, _OF_MODULUS, _OF_MODULUS))
def _weigh_sixteen(
    builder: Any, words: Any, distance: Any, count: Any, one: Any, other: Any
) -> None:
    """Write the sums of `count` weighted words of 16 entries modulo two p, symmetric.

    `words`: the address of the first words as float64, those of the next order
    `distance` bytes on. Of each modulus: the addresses of its weights and of what is
    written, p and 1 / p. |sum| < 2^51; a tie of p = 256 gives -128.
    """
    write = Writer(builder, GROUP)
    moduli = [cgutils.unpack_tuple(builder, x, 4) for x in (one, other)]

    def add_word(t: Any, *totals: Any) -> list[Any]:
        row = write.load(words, builder.mul(t, distance), _DOUBLES)
        offset, sums = builder.mul(t, ir.Constant(_ADDRESS, 8)), []
        for total, (weights, *_) in zip(totals, moduli, strict=True):
            weight = write.fill(write.load(weights, offset, _DOUBLE))
            sums.append(write.add_exact(total, row, weight))
        return sums

    ones = ir.Constant(_DOUBLES, [1.0] * GROUP)
    rounding = ir.Constant(_DOUBLES, [_ROUNDING] * GROUP)
    totals = write.repeat(count, [ones, ones], add_word)
    for total, (_, out, p, inverse) in zip(totals, moduli, strict=True):
        quotient = write.add_exact(rounding, total, write.fill(inverse))
        quotient = builder.fsub(quotient, rounding)
        rest = write.subtract_exact(total, quotient, write.fill(p))
        _store_bytes(write, rest, out)


def _store_bytes(write: Writer, rest: Any, out: Any) -> None:
    """Write 16 bytes r of numbers 4 r + 1: the bytes of a word 4 lanes apart."""
    builder = write.builder
    kind = ir.VectorType(_DOUBLE, _LANES)
    # The fraction of a quarter that is left is rounded off last.
    start = _ROUNDING + _BIAS - sum(x / _SCALE for x in _BYTES[1:])
    found = ir.Constant(kind, [start] * _LANES)
    for i in range(DEPTH - 1, -1, -1):
        weight = ir.Constant(kind, [_BYTES[i] / _SCALE] * _LANES)
        own = write.pick(rest, rest, range(i * _LANES, (i + 1) * _LANES))
        found = write.add_exact(found, own, weight)
    words = ir.VectorType(_WORD, _LANES)
    bits = builder.bitcast(found, ir.VectorType(_ADDRESS, _LANES))
    bias = ir.Constant(words, [int(_BIAS)] * _LANES)
    write.store(builder.xor(builder.trunc(bits, words), bias), out, 0)


@inner(_nrt=False)
def weigh_words(words, weights, moduli, split, out):  # type: ignore[no-untyped-def]
    """out[plane, entry] = the weighted sum of the words of each entry, modulo p."""
    count, last = words.shape[1], len(moduli) - 1
    address, step, distance = split.ctypes.data, split.strides[1], split.strides[0]
    for start in range(0, out.shape[1], _ENTRIES):
        groups = min(_ENTRIES, out.shape[1] - start) // GROUP
        for g in range(groups):
            line, row = divmod(start // GROUP + g, DEPTH)
            for t in range(count):
                # Four rows of each column, which are the bytes of four words.
                for i in range(GROUP):
                    word = words[line, t, i // DEPTH, row * DEPTH + i % DEPTH]
                    split[t, g, i] = _SCALE * np.int32(word ^ _SIGN)
        for plane in range(0, last + 1, 2):
            one, other = moduli[plane], moduli[min(plane + 1, last)]
            x = weights[plane].ctypes.data, weights[min(plane + 1, last)].ctypes.data
            y = out[plane].ctypes.data, out[min(plane + 1, last)].ctypes.data
            for g in range(groups):
                at = start + g * GROUP
                _weigh_sixteen(
                    address + g * step,
                    distance,
                    count,
                    (x[0], y[0] + at, _SCALE * one, 1.0 / (_SCALE * one)),
                    (x[1], y[1] + at, _SCALE * other, 1.0 / (_SCALE * other)),
                )
