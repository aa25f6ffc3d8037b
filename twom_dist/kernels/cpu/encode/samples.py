"""Planes of 8-bit samples: their bytes, in the order that products read.

Nothing is scaled or reduced. Alternating real and imaginary parts are separated.
"""

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
from ..products.writer import Writer
from ..threads import ranges, run_each

_FLIP = 128  # planes are signed: what uint8 is too large
_WORDS = 64  # of each row at a time: those of a group and of two planes fit L1


_TOGETHER = 8  # words of each part that one vector of 64 bytes holds
_LINES_BYTES = 1 << 18  # of lines that stay in L2 while groups take their part of each
_WORD, _PAIR = ir.IntType(32), ir.IntType(16)


@instructions(result=types.uint32)
def _load_word(builder, address):
    """Load a word from anywhere."""
    return Writer(builder, GROUP).load(address, 0, _WORD)


def _splitter(count):
    """Make a function that writes words of both parts of their pairs, line by line."""

    @instructions(given=(types.intp, types.intp, types.intp, types.uint32))
    def split(builder, source, re, im, flips):
        write, pairs = Writer(builder, GROUP), ir.VectorType(_PAIR, DEPTH * count)
        found = write.load(source, 0, pairs)
        odd = builder.lshr(found, ir.Constant(pairs, [8] * pairs.count))
        for part, target in ((found, re), (odd, im)):
            some = builder.trunc(part, ir.VectorType(ir.IntType(8), pairs.count))
            words = builder.bitcast(some, ir.VectorType(_WORD, count))
            for i in range(count):
                own = builder.extract_element(words, ir.Constant(_WORD, i))
                write.store(builder.xor(own, flips), target, GROUP * DEPTH * i)

    return split


_split_pairs, _split_four = _splitter(_TOGETHER), _splitter(1)


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
    flips, done = np.uint32(flip * 0x01010101), k // DEPTH
    step = _TOGETHER if done >= _TOGETHER else 1
    for group in range(lo, hi):
        matrix, first = group // groups, group % groups * GROUP
        count = min(GROUP, rows - first)
        out[:, group, :, count:] = 0
        for start in range(0, done, _WORDS):
            end = min(done, start + _WORDS)
            for r in range(count):
                row = x[matrix, first + r].ctypes.data
                if parts == 2:
                    for place in range(start, end, step):
                        # The last ones may be written twice.
                        w = min(place, done - step)
                        re = out[0, group, w, r:].ctypes.data
                        im = out[1, group, w, r:].ctypes.data
                        if step == 1:
                            _split_four(row + 8 * w, re, im, flips)
                        else:
                            _split_pairs(row + 8 * w, re, im, flips)
                else:
                    for w in range(start, end):
                        out[0, group, w, r] = _load_word(row + 4 * w) ^ flips
        for w in range(done, words):
            for r in range(count):
                rest = x[matrix, first + r, DEPTH * w : DEPTH * (w + 1)]
                for part in range(parts):
                    out[part, group, w, r] = _join(rest, part, flip)


@instructions(given=(types.intp, types.intp, types.intp, types.intp, types.uint32))
def _join_lines(builder, source, distance, re, im, flips):
    """Write a line of 16 words of both parts, of 16 pairs in each of four lines."""
    write, lines = Writer(builder, GROUP), []
    for t in range(DEPTH):
        offset = builder.mul(distance, ir.Constant(distance.type, t))
        found = write.load(source, offset, ir.VectorType(_PAIR, GROUP))
        lines.append(builder.zext(found, write.words))
    for part, target in ((0, re), (8, im)):
        total = write.fill(flips)
        for t, line in enumerate(lines):
            byte = builder.lshr(line, write.splat(part))
            byte = builder.and_(byte, write.splat(255))
            total = builder.xor(total, builder.shl(byte, write.splat(8 * t)))
        write.store(total, target, 0)


@kernel
def _turn_columns(x, flip, out, lo, hi):
    """Write groups lo..hi of rows that lie side by side: x (matrices, k, rows)."""
    matrices, k, rows = x.shape
    parts, groups, words = len(out), out.shape[1] // matrices, out.shape[2]
    flips, whole = np.uint32(flip * 0x01010101), k // DEPTH
    step = max(1, _LINES_BYTES // (DEPTH * max(1, rows) * parts))
    for start in range(0, words, step):
        for group in range(lo, hi):
            matrix, first = group // groups, group % groups * GROUP
            count = min(GROUP, rows - first)
            for w in range(start, min(words, start + step)):
                if parts == 2 and count == GROUP and w < whole:
                    _join_lines(
                        x[matrix, DEPTH * w, first:].ctypes.data,
                        x.strides[1],
                        out[0, group, w].ctypes.data,
                        out[1, group, w].ctypes.data,
                        flips,
                    )
                    continue
                out[:, group, w, count:] = 0
                for r in range(count):
                    rest = x[matrix, DEPTH * w : DEPTH * (w + 1), first + r]
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
    samples = x.view(f"u{parts}")
    if kind.kind == "b":
        # NumPy takes any byte but 0 as True.
        samples = (samples.view(np.uint8) != 0).view(samples.dtype)
    source = read_only(as_stack(samples))
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
