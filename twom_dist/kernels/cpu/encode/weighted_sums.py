"""Weighted sums of the bytes of words modulo p, 64 entries at a time.

Sums of so few products are small enough to be reduced directly. The residues of four
neighbours along k, from four vectors, fill a line of a plane.
"""

from typing import Any

from llvmlite import ir

from ..jit import inner, instructions
from ..planes import DEPTH, GROUP
from ..products.microkernel import Reducer
from ..products.writer import make_writer
from .words import ORDER_BYTES

_ADDRESS, _WORD = ir.IntType(64), ir.IntType(32)
PLANES = 4  # planes whose sums fill the registers
# Bytes of a line, and of what a plane is reduced by.
_LINE, _ENTRY = GROUP * DEPTH, 16


@instructions
def weigh_lines(builder, words, orders, lines, weights, entries, planes, out, distance):
    """out[plane, line, r, t] = the sum of weighted bytes of words[line, :, t, r].

    Plus the start of the plane, modulo its p: `entries` are those of `reduction_table`,
    whose weights are not used. weights[order, plane] are those of 16 planes, of which
    the first PLANES at most are written. All but `orders`, `lines` and `planes` are
    addresses, and the bytes from plane to plane of out.
    """
    write = make_writer(builder)
    # Half of the vectors are half as many, too.
    halves = GROUP // write.lanes
    together, nbytes = PLANES // halves, _LINE // halves

    def times(count: Any, size: int) -> Any:
        return builder.mul(count, ir.Constant(_ADDRESS, size))

    def write_part(source: Any, target: Any, own: range) -> None:
        def add_order(order: Any, *sums: Any) -> list[Any]:
            here = builder.add(source, times(order, ORDER_BYTES))
            right = [write.load(here, _LINE * t, write.words) for t in range(DEPTH)]
            row, before, found = times(order, _LINE), iter(sums), []
            for p in own:
                place = builder.add(row, ir.Constant(_ADDRESS, DEPTH * p))
                left = write.fill(write.load(weights, place, _WORD))
                found += [write.add_products(next(before), y, left) for y in right]
            return found

        reducers = [
            Reducer(write, builder.add(entries, ir.Constant(_ADDRESS, _ENTRY * p)))
            for p in own
        ]
        given = [reducer.start for reducer in reducers for _ in range(DEPTH)]
        sums = iter(write.repeat(orders, given, add_order))
        for p, reducer in zip(own, reducers, strict=True):
            residues = [reducer.reduce(next(sums)) for _ in range(DEPTH)]
            is_own = builder.icmp_signed(">", planes, ir.Constant(_ADDRESS, p))
            with builder.if_then(is_own, likely=True):
                write.store(write.pack(residues), target, times(distance, p))

    def write_line(line: Any) -> list[Any]:
        source = builder.add(words, builder.mul(line, times(orders, ORDER_BYTES)))
        target = builder.add(out, times(line, _LINE))
        for first in range(0, PLANES, together):
            for half in range(0, _LINE, nbytes):
                offset = ir.Constant(_ADDRESS, half)
                where = builder.add(source, offset), builder.add(target, offset)
                write_part(*where, range(first, first + together))
        return []

    write.repeat(lines, [], write_line)


@inner(_nrt=False)
def weigh_bytes(words, weights, entries, out, first):
    """Write all planes of lines from `first` on: weights[planes // 16, word, 16, 4]."""
    for plane in range(0, len(out), PLANES):
        weigh_lines(
            words.ctypes.data,
            words.shape[1],
            len(words),
            weights[plane // GROUP, 0, plane % GROUP].ctypes.data,
            entries[plane].ctypes.data,
            len(out) - plane,
            out[plane].ctypes.data + first * _LINE,
            out.strides[0],
        )
