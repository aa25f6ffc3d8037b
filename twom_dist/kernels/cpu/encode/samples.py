"""Planes of samples of 8 bits: their bytes, put in the order that products read.

The modulus is 2^32, so that nothing is scaled or reduced. Real and imaginary parts that
alternate are taken apart.
"""

from functools import partial
from math import prod

import numpy as np
from llvmlite import ir
from numba import types

from ....moduli import ResidueSystem
from ....typing import Array
from ..buffers import empty
from ..jit import inner, instructions, kernel
from ..layout import as_stack, read_only
from ..planes import DEPTH, GROUP, CpuEncoded
from ..threads import ranges, run_each

_FLIP = 128  # planes are signed: what uint8 is too large
_WORDS = 64  # of each row at a time: those of a group and of two planes fit L1


def _load(bits, builder, address):
    """Load a number from anywhere."""
    found = builder.load(builder.inttoptr(address, ir.IntType(bits).as_pointer()))
    found.align = 1
    return found


_load_word = instructions(partial(_load, 32), result=types.uint32)
_load_long = instructions(partial(_load, 64), result=types.uint64)


@inner
def _take_even(x):
    """Return the bytes 0, 2, 4 and 6 of a number of eight as one of four."""
    x &= np.uint64(0x00FF00FF00FF00FF)
    x = (x | x >> np.uint64(8)) & np.uint64(0x0000FFFF0000FFFF)
    return np.uint32(x | x >> np.uint64(16))


@inner
def _join(samples, part, flip):
    """Return the bytes of up to four samples, in one part, as a word."""
    word = np.uint32(0)
    for t in range(len(samples)):
        byte = np.uint32(samples[t] >> (8 * part)) & np.uint32(255)
        word |= (byte ^ np.uint32(flip)) << np.uint32(8 * t)
    return word


@kernel
def _copy_rows(x, flip, out, lo, hi):
    """Write groups lo..hi of all matrices, whose rows lie one after the other.

    x (matrices, rows, k) samples; out (parts, groups, words, 16) words.
    """
    matrices, rows, k = x.shape
    parts, groups, words = len(out), out.shape[1] // matrices, out.shape[2]
    flips, whole = np.uint32(flip * 0x01010101), k // DEPTH
    for group in range(lo, hi):
        matrix, first = group // groups, group % groups * GROUP
        count = min(GROUP, rows - first)
        out[:, group, :, count:] = 0
        for start in range(0, whole, _WORDS):
            for r in range(count):
                row = x[matrix, first + r].ctypes.data
                if parts == 2:
                    for w in range(start, min(whole, start + _WORDS)):
                        pairs = _load_long(row + 8 * w)
                        out[0, group, w, r] = _take_even(pairs) ^ flips
                        out[1, group, w, r] = _take_even(pairs >> np.uint64(8)) ^ flips
                else:
                    for w in range(start, min(whole, start + _WORDS)):
                        out[0, group, w, r] = _load_word(row + 4 * w) ^ flips
        for w in range(whole, words):
            for r in range(count):
                rest = x[matrix, first + r, DEPTH * w :]
                for part in range(parts):
                    out[part, group, w, r] = _join(rest, part, flip)


@kernel
def _turn_columns(x, flip, out, lo, hi):
    """Write groups lo..hi of rows that lie side by side: x (matrices, k, rows)."""
    matrices, k, rows = x.shape
    parts, groups, words = len(out), out.shape[1] // matrices, out.shape[2]
    flips, whole = np.uint32(flip * 0x01010101), k // DEPTH
    byte = np.uint32(255)
    for group in range(lo, hi):
        matrix, first = group // groups, group % groups * GROUP
        count = min(GROUP, rows - first)
        out[:, group, :, count:] = 0
        for w in range(whole):
            lines = x[matrix, DEPTH * w : DEPTH * (w + 1), first : first + count]
            a, b, c, d = lines[0], lines[1], lines[2], lines[3]
            own = out[0, group, w]
            for r in range(count):
                low = (np.uint32(a[r]) & byte) | (np.uint32(b[r]) & byte) << 8
                high = (np.uint32(c[r]) & byte) | (np.uint32(d[r]) & byte) << 8
                own[r] = (low | high << 16) ^ flips
            if parts == 2:
                own = out[1, group, w]
                for r in range(count):
                    low = np.uint32(a[r] >> 8) | np.uint32(b[r] >> 8) << 8
                    high = np.uint32(c[r] >> 8) | np.uint32(d[r] >> 8) << 8
                    own[r] = (low | high << 16) ^ flips
        for w in range(whole, words):
            for r in range(count):
                rest = x[matrix, DEPTH * w :, first + r]
                for part in range(parts):
                    out[part, group, w, r] = _join(rest, part, flip)


def encode_samples(x: Array, system: ResidueSystem, conjugate: bool) -> CpuEncoded:
    """Encode rows (..., rows, k) of int8, uint8, booleans, or pairs of them."""
    *stack, rows, k = x.shape
    kind, parts = x.dtype if x.dtype.names is None else x.dtype[0], system.parts
    across = x.strides[-1] != x.itemsize and x.strides[-2] == x.itemsize
    if across:
        x = x.swapaxes(-1, -2)
    elif x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    source = read_only(as_stack(x.view(f"u{parts}")))
    flip = _FLIP if kind.kind == "u" else 0
    groups, words = prod(stack) * -(-rows // GROUP), -(-k // DEPTH)
    planes = empty((parts, groups, words, GROUP, DEPTH), np.int8)
    out = planes.view(np.uint32)[..., 0]
    write = _turn_columns if across else _copy_rows

    def encode(piece: tuple[int, int]) -> None:
        write(source, flip, out, *piece)

    run_each(encode, ranges(groups, each=GROUP * words * parts))
    order = [*range(parts), *(~i for i in range(1, parts))]
    if conjugate:
        order = [order[i] for i in system.conjugate_planes or ()]
    return CpuEncoded(rows, k, planes, tuple(order), tuple(stack), flip)
