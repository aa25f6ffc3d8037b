"""Sums of residues modulo p, 16 or 64 bytes at a time, and of two parts along k.

Numba adds int8 as int64; here LLVM keeps bytes. A residue x of either sign becomes u,
0 <= u < p, with no ninth bit: u + v less p where u >= p - v, whether or not u + v fits.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ....moduli import ResidueSystem
from ....typing import Array
from ..buffers import empty
from ..jit import instructions, kernel
from ..threads import ranges, run_each
from .writer import Writer

_BYTE, _ADDRESS = ir.IntType(8), ir.IntType(64)

LONG, SHORT = 64, 16


class _Residues(Writer):
    """Sums of vectors of bytes modulo p; p = 256 is a byte of 0."""

    def __init__(self, builder: Any, p: Any, lanes: int) -> None:
        super().__init__(builder, lanes)
        half = builder.lshr(p, ir.Constant(p.type, 1))
        self.p = self.fill(builder.trunc(p, _BYTE))
        # The largest residue: (p - 1) / 2, or 127.
        odd = builder.and_(p, ir.Constant(p.type, 1))
        top = builder.add(builder.sub(half, ir.Constant(p.type, 1)), odd)
        self.top = self.fill(builder.trunc(top, _BYTE))
        self.zero = ir.Constant(self.residues, [0] * lanes)

    def read(self, address: Any, offset: Any) -> Any:
        """Load residues as numbers from 0 on."""
        x = self.load(address, offset, self.residues)
        negative = self.builder.icmp_signed("<", x, self.zero)
        return self.builder.add(x, self.builder.select(negative, self.p, self.zero))

    def write(self, u: Any, address: Any, offset: Any) -> None:
        """Store symmetric residues."""
        large = self.builder.icmp_unsigned(">", u, self.top)
        x = self.builder.sub(u, self.builder.select(large, self.p, self.zero))
        self.store(x, address, offset)

    def plus(self, u: Any, v: Any) -> Any:
        beyond = self.builder.icmp_unsigned(">=", u, self.builder.sub(self.p, v))
        excess = self.builder.select(beyond, self.p, self.zero)
        return self.builder.sub(self.builder.add(u, v), excess)

    def minus(self, u: Any, v: Any) -> Any:
        below = self.builder.icmp_unsigned("<", u, v)
        lack = self.builder.select(below, self.p, self.zero)
        return self.builder.add(self.builder.sub(u, v), lack)

    def each(self, count: Any, body: Callable[[Any], None]) -> None:
        """Call ``body(offset)`` for each of `count` vectors."""

        def step(i: Any) -> list[Any]:
            body(self.builder.mul(i, ir.Constant(_ADDRESS, self.lanes)))
            return []

        self.repeat(count, [], step)


def _sum_vectors(right, builder, a, b, c, d, out, distance, count, p):
    """out[t] = S1, S2, S3, S4, or the T: `count` vectors of 64 bytes each.

    a, b, c, d: addresses of the quarters 11, 12, 21, 22 of A, or of B^T; out[t] are
    `distance` apart.
    """
    residues = _Residues(builder, p, LONG)
    plus, minus = residues.plus, residues.minus

    def sum_one(offset: Any) -> None:
        u, v, w, z = (residues.read(x, offset) for x in (a, b, c, d))
        if right:
            first = minus(w, u)
            second = minus(z, first)
            sums = first, second, minus(z, w), minus(second, v)
        else:
            first = plus(w, z)
            second = minus(first, u)
            sums = first, second, minus(u, w), minus(v, second)
        for total in sums:
            residues.write(total, out, offset)
            offset = builder.add(offset, distance)

    residues.each(count, sum_one)


def _add_vectors(lanes, builder, x, y, out, count, p):
    """out = x + y: addresses of `count` vectors each."""
    residues = _Residues(builder, p, lanes)

    def add_one(offset: Any) -> None:
        u, v = residues.read(x, offset), residues.read(y, offset)
        residues.write(residues.plus(u, v), out, offset)

    residues.each(count, add_one)


def _join_vectors(
    lanes,
    builder,
    products,
    distance,
    top,
    bottom,
    old_top,
    old_bottom,
    count,
    left,
    add,
    p,
):
    """top, bottom = C11, C21, or C12, C22 where not `left`, `count` vectors each.

    `products`: the address of P1, the others `distance` apart; `add`: what lies at
    `old_top` and `old_bottom`, which may be top and bottom.
    """
    residues = _Residues(builder, p, lanes)
    plus, minus = residues.plus, residues.minus
    place = [
        builder.add(products, builder.mul(distance, ir.Constant(_ADDRESS, t)))
        for t in range(7)
    ]

    def write(sums: tuple[Any, Any], offset: Any) -> None:
        with builder.if_else(add) as (adding, alone):
            with adding:
                before = [residues.read(x, offset) for x in (old_top, old_bottom)]
                for u, v, out in zip(before, sums, (top, bottom), strict=True):
                    residues.write(plus(u, v), out, offset)
            with alone:
                for total, out in zip(sums, (top, bottom), strict=True):
                    residues.write(total, out, offset)

    def join_one(offset: Any) -> None:
        p1, p6, p7 = (residues.read(place[t], offset) for t in (0, 5, 6))
        six = plus(p1, p6)
        seven = plus(six, p7)
        with builder.if_else(left) as (on_left, on_right):
            with on_left:
                p2, p4 = (residues.read(place[t], offset) for t in (1, 3))
                write((plus(p1, p2), minus(seven, p4)), offset)
            with on_right:
                p3, p5 = (residues.read(place[t], offset) for t in (2, 4))
                upper = plus(plus(six, p5), p3)
                write((upper, plus(seven, p5)), offset)

    residues.each(count, join_one)


sum_left, sum_right = (instructions(partial(_sum_vectors, x)) for x in (False, True))
_JOINED = *(types.intp,) * 7, types.boolean, types.boolean, types.intp
join_long, join_short = (
    instructions(partial(_join_vectors, lanes), given=_JOINED)
    for lanes in (LONG, SHORT)
)
_add_long, _add_short = (
    instructions(partial(_add_vectors, lanes)) for lanes in (LONG, SHORT)
)


@kernel
def _add_bytes(x, y, p, lo, hi, out):
    """out[lo:hi] = x + y modulo p; SHORT divides both ends."""
    long = (hi - lo) // LONG
    first, second, to = x.ctypes.data + lo, y.ctypes.data + lo, out.ctypes.data + lo
    _add_long(first, second, to, long, p)
    done = long * LONG
    rest = (hi - lo - done) // SHORT
    _add_short(first + done, second + done, to + done, rest, p)


def add_residues(x: Array, y: Array, system: ResidueSystem) -> Array:
    """Add products modulo p, each in ranges of lines side by side."""
    if system.wraps:
        return x + y
    out = empty(x.shape, np.int8)
    lines = x[0].size // SHORT
    x, y = (np.ascontiguousarray(t).reshape(len(t), -1) for t in (x, y))
    whole = out.reshape(len(out), -1)
    # A line takes a nanosecond.
    pieces = [(q, *piece) for q in range(len(out)) for piece in ranges(lines, each=1)]

    def add(piece: tuple[int, int, int]) -> None:
        q, lo, hi = piece
        p = system.products[q].p
        _add_bytes(x[q], y[q], p, lo * SHORT, hi * SHORT, whole[q])

    run_each(add, pieces)
    return out
