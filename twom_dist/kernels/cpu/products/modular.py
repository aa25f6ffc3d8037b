"""Sums of residues modulo p, 16 or 64 bytes at a time: what quarters are made of.

Numba adds int8 as int64; here LLVM keeps bytes. A residue x of either sign becomes u,
0 <= u < p, with no ninth bit: u + v less p where u >= p - v, whether or not u + v fits.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE, _ADDRESS = ir.IntType(8), ir.IntType(64)

LONG, SHORT = 64, 16


class _Residues:
    """Sums of vectors of bytes modulo p; p = 256 is a byte of 0."""

    def __init__(self, builder: Any, p: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.kind = ir.VectorType(_BYTE, lanes)
        half = builder.lshr(p, ir.Constant(p.type, 1))
        self.p = self.fill(builder.trunc(p, _BYTE))
        # The largest residue: (p - 1) / 2, or 127.
        odd = builder.and_(p, ir.Constant(p.type, 1))
        top = builder.add(builder.sub(half, ir.Constant(p.type, 1)), odd)
        self.top = self.fill(builder.trunc(top, _BYTE))
        self.zero = ir.Constant(self.kind, [0] * lanes)

    def fill(self, byte: Any) -> Any:
        """Fill a vector."""
        none = ir.Constant(self.kind, ir.Undefined)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        first = self.builder.insert_element(none, byte, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(first, none, zeros)

    def at(self, address: Any, offset: Any) -> Any:
        """Point at a vector, some bytes after an address."""
        place = self.builder.add(address, offset)
        return self.builder.inttoptr(place, self.kind.as_pointer())

    def load(self, address: Any, offset: Any) -> Any:
        """Load residues as numbers from 0 on."""
        x = self.builder.load(self.at(address, offset))
        x.align = 1
        negative = self.builder.icmp_signed("<", x, self.zero)
        return self.builder.add(x, self.builder.select(negative, self.p, self.zero))

    def store(self, u: Any, address: Any, offset: Any) -> None:
        """Store symmetric residues."""
        large = self.builder.icmp_unsigned(">", u, self.top)
        x = self.builder.sub(u, self.builder.select(large, self.p, self.zero))
        self.builder.store(x, self.at(address, offset)).align = 1

    def plus(self, u: Any, v: Any) -> Any:
        """Add."""
        beyond = self.builder.icmp_unsigned(">=", u, self.builder.sub(self.p, v))
        excess = self.builder.select(beyond, self.p, self.zero)
        return self.builder.sub(self.builder.add(u, v), excess)

    def minus(self, u: Any, v: Any) -> Any:
        """Subtract."""
        below = self.builder.icmp_unsigned("<", u, v)
        lack = self.builder.select(below, self.p, self.zero)
        return self.builder.add(self.builder.sub(u, v), lack)


def _repeat(builder: Any, lanes: int, count: Any, body: Callable[[Any], None]) -> None:
    """Call ``body(offset)`` for each of `count` > 0 vectors."""
    before, loop = builder.block, builder.append_basic_block("vector")
    after = builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(_ADDRESS)
    body(builder.mul(step, ir.Constant(_ADDRESS, lanes)))
    following = builder.add(step, ir.Constant(_ADDRESS, 1))
    step.add_incoming(ir.Constant(_ADDRESS, 0), before)
    step.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    builder.position_at_end(after)


def _summer(right: bool) -> Any:
    @intrinsic
    def sum_vectors(
        typing_context: Any,
        a: Any,
        b: Any,
        c: Any,
        d: Any,
        out: Any,
        distance: Any,
        count: Any,
        p: Any,
    ) -> Any:
        """out[t] = S1, S2, S3, S4, or the T: `count` vectors of 64 bytes each.

        a, b, c, d: addresses of the quarters 11, 12, 21, 22 of A, or of B^T; out[t] are
        `distance` apart.
        """

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *quarters, out, distance, count, p = args
            residues = _Residues(builder, p, LONG)

            def sum_one(offset: Any) -> None:
                a, b, c, d = (residues.load(x, offset) for x in quarters)
                plus, minus = residues.plus, residues.minus
                if right:
                    first = minus(c, a)
                    second = minus(d, first)
                    sums = first, second, minus(d, c), minus(second, b)
                else:
                    first = plus(c, d)
                    second = minus(first, a)
                    sums = first, second, minus(a, c), minus(b, second)
                for total in sums:
                    residues.store(total, out, offset)
                    offset = builder.add(offset, distance)

            _repeat(builder, LONG, count, sum_one)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 8), generate

    return sum_vectors


def _adder(lanes: int) -> Any:
    @intrinsic
    def add_vectors(
        typing_context: Any, x: Any, y: Any, out: Any, count: Any, p: Any
    ) -> Any:
        """out = x + y: addresses of `count` > 0 vectors each."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, y, out, count, p = args
            residues = _Residues(builder, p, lanes)

            def add_one(offset: Any) -> None:
                u, v = residues.load(x, offset), residues.load(y, offset)
                residues.store(residues.plus(u, v), out, offset)

            _repeat(builder, lanes, count, add_one)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 5), generate

    return add_vectors


def _joiner(lanes: int) -> Any:
    @intrinsic
    def join_vectors(
        typing_context: Any,
        products: Any,
        distance: Any,
        top: Any,
        bottom: Any,
        old_top: Any,
        old_bottom: Any,
        count: Any,
        left: Any,
        add: Any,
        p: Any,
    ) -> Any:
        """top, bottom = C11, C21, or C12, C22 where not `left`, `count` vectors each.

        `products`: the address of P1, the others `distance` apart; `add`: what lies at
        `old_top` and `old_bottom`, which may be top and bottom.
        """

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            products, distance, top, bottom, *old, count, left, add, p = args
            residues = _Residues(builder, p, lanes)
            plus, minus = residues.plus, residues.minus
            place = [
                builder.add(products, builder.mul(distance, ir.Constant(_ADDRESS, t)))
                for t in range(7)
            ]

            def write(sums: tuple[Any, Any], offset: Any) -> None:
                with builder.if_else(add) as (adding, alone):
                    with adding:
                        before = [residues.load(x, offset) for x in old]
                        for u, v, out in zip(before, sums, (top, bottom), strict=True):
                            residues.store(plus(u, v), out, offset)
                    with alone:
                        for total, out in zip(sums, (top, bottom), strict=True):
                            residues.store(total, out, offset)

            def join_one(offset: Any) -> None:
                p1, p6, p7 = (residues.load(place[t], offset) for t in (0, 5, 6))
                six = plus(p1, p6)
                seven = plus(six, p7)
                with builder.if_else(left) as (on_left, on_right):
                    with on_left:
                        p2, p4 = (residues.load(place[t], offset) for t in (1, 3))
                        write((plus(p1, p2), minus(seven, p4)), offset)
                    with on_right:
                        p3, p5 = (residues.load(place[t], offset) for t in (2, 4))
                        upper = plus(plus(six, p5), p3)
                        write((upper, plus(seven, p5)), offset)

            _repeat(builder, lanes, count, join_one)
            return context.get_dummy_value()

        signature = types.void(
            *(types.intp,) * 7, types.boolean, types.boolean, types.intp
        )
        return signature, generate

    return join_vectors


sum_left, sum_right = _summer(False), _summer(True)
join_long, join_short = _joiner(LONG), _joiner(SHORT)
add_long, add_short = _adder(LONG), _adder(SHORT)
