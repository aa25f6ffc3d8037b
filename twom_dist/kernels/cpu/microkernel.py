"""Sums of int8 products that never leave the registers: 8 rows by 16, 32 or 48.

Written in LLVM's own language through Numba, for what Numba has no name for: vectors of
512 bits, and VNNI's ``vpdpbusd``, which adds four products u8 x s8 to each of 16 sums.
Operands lie as `CpuEncoded` has them. A step loads 16 rows of the right operand, four
neighbours along k of each, and multiplies them by four of a row of the left one, which
fill a vector: 24 sums take 24 instructions, and 11 loads.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .encoded import DEPTH, GROUP
from .units import has_vnni

# Rows of the left operand; half a group.
ROWS = 8
# Groups of the right operand that one call may take.
WIDEST = 3

_STEP = GROUP * DEPTH  # bytes of a group that one vector holds
_BYTE, _WORD, _SINGLE = ir.IntType(8), ir.IntType(32), ir.FloatType()
_ADDRESS = ir.IntType(64)
WORDS = ir.VectorType(_WORD, GROUP)
_SINGLES = ir.VectorType(_SINGLE, GROUP)
_RESIDUES = ir.VectorType(_BYTE, GROUP)


class Writer:
    """The instructions that the kernels share."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def declare(self, name: str, out: Any, *given: Any) -> Any:
        """Name an instruction of LLVM's or of the machine's."""
        module, kind = self.builder.module, ir.FunctionType(out, given)
        return cgutils.get_or_insert_function(module, kind, name)

    def at(self, address: Any, offset: Any, kind: Any) -> Any:
        """Point at `kind`, some bytes after an address."""
        builder = self.builder
        if isinstance(offset, int):
            offset = ir.Constant(_ADDRESS, offset)
        return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

    def load(self, address: Any, offset: Any, kind: Any) -> Any:
        """Load from anywhere: where vectors are not aligned, it only takes longer."""
        found = self.builder.load(self.at(address, offset, kind))
        found.align = 1
        return found

    def store(self, value: Any, address: Any, offset: Any) -> None:
        """Store to anywhere."""
        self.builder.store(value, self.at(address, offset, value.type)).align = 1

    def fill(self, value: Any) -> Any:
        """Fill a vector with a number."""
        kind = ir.VectorType(value.type, GROUP)
        none = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(none, value, ir.Constant(_WORD, 0))
        return self.builder.shuffle_vector(first, none, ir.Constant(WORDS, [0] * GROUP))

    def add_products(self, sums: Any, unsigned: Any, signed: Any) -> Any:
        """sums[i] += the products of four bytes each: ``vpdpbusd``.

        Elsewhere by plain instructions, slowly: tests take this way on every CPU.
        """
        builder = self.builder
        if has_vnni():
            # As LLVM had it before 22, which takes it still.
            name = "llvm.x86.avx512.vpdpbusd.512"
            step = self.declare(name, WORDS, *(WORDS,) * 3)
            return builder.call(step, [sums, unsigned, signed])
        for place in range(0, 32, 8):
            below, above = (
                ir.Constant(WORDS, [x] * GROUP) for x in (place, 24 - place)
            )
            last, byte = (ir.Constant(WORDS, [x] * GROUP) for x in (24, 255))
            x = builder.and_(builder.lshr(unsigned, below), byte)
            y = builder.ashr(builder.shl(signed, above), last)
            sums = builder.add(sums, builder.mul(x, y))
        return sums

    def flip(self, words: Any, mask: int) -> Any:
        """Exclusive or with a constant."""
        return self.builder.xor(words, ir.Constant(WORDS, [mask] * GROUP))

    def repeat(
        self, steps: Any, given: list[Any], body: Callable[..., Any]
    ) -> list[Any]:
        """Call ``body(step, *vectors)`` for each step; it returns the next vectors."""
        builder, before = self.builder, self.builder.block
        loop = builder.append_basic_block("step")
        after = builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        zero, one = ir.Constant(_ADDRESS, 0), ir.Constant(_ADDRESS, 1)
        step, held = builder.phi(_ADDRESS), [builder.phi(x.type) for x in given]
        found = body(step, *held)
        following = builder.add(step, one)
        for phi, first, then in zip(
            (step, *held), (zero, *given), (following, *found), strict=True
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(then, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
        builder.position_at_end(after)
        return list(found)


@intrinsic
def sum_rows(typing_context: Any, x: Any, steps: Any, factor: Any, out: Any) -> Any:
    """out[r] = factor times the sum of row r of a group, r < 16."""
    signature = types.void(types.intp, types.intp, types.int32, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, steps, factor, out = args
        write = Writer(builder)
        ones = ir.Constant(WORDS, [0x01010101] * GROUP)

        def add(step: Any, sums: Any) -> list[Any]:
            offset = builder.mul(step, ir.Constant(_ADDRESS, _STEP))
            return [write.add_products(sums, ones, write.load(x, offset, WORDS))]

        (sums,) = write.repeat(steps, [ir.Constant(WORDS, [0] * GROUP)], add)
        write.store(builder.mul(sums, write.fill(factor)), out, 0)
        return context.get_dummy_value()

    return signature, generate


def _multiplier(width: int) -> Any:
    """Make the kernel for 8 rows by `width` groups."""

    @intrinsic
    def multiply(
        typing_context: Any,
        x: Any,
        y: Any,
        y_stride: Any,
        steps: Any,
        starts: Any,
        out: Any,
        out_stride: Any,
        rows: Any,
        old: Any,
        entries: Any,
        entry_stride: Any,
    ) -> Any:
        signature = types.void(*(types.intp,) * 11)
        return signature, lambda *given: _write_multiply(width, *given)

    return multiply


def _write_multiply(
    width: int, context: Any, builder: Any, signature: Any, args: Any
) -> Any:
    """out[r, j] = starts[r] + the sum over 4 steps of x[r] (y[j] + 128), modulo p.

    r < `rows` <= 8; j < 16 width. All but `rows` are addresses and distances in bytes:
    of x and y their first words, `y_stride` from group to group of y. Residues at `old`
    are added, with the strides of `out`, unless that is 0; it may be `out`. Row r is
    reduced by entry r of the table, {weights, start, p, 1 / p} as int32 and float32.
    """
    x, y, y_stride, steps, starts, out, out_stride, rows, old, *table = args
    entries, entry_stride = table
    add = builder.icmp_signed("!=", old, ir.Constant(_ADDRESS, 0))
    write = Writer(builder)
    groups = range(width)
    panels = [
        builder.add(y, builder.mul(y_stride, ir.Constant(_ADDRESS, g))) for g in groups
    ]
    first = [write.fill(write.load(starts, 4 * r, _WORD)) for r in range(ROWS)]

    def multiply_step(step: Any, *sums: Any) -> list[Any]:
        offset = builder.mul(step, ir.Constant(_ADDRESS, _STEP))
        right = [
            write.flip(write.load(panel, offset, WORDS), 0x80808080) for panel in panels
        ]
        row = builder.add(x, offset)
        found = []
        for r in range(ROWS):
            left = write.fill(write.load(row, DEPTH * r, _WORD))
            found += [
                write.add_products(sums[r * width + g], right[g], left) for g in groups
            ]
        return found

    sums = write.repeat(steps, [s for s in first for _ in groups], multiply_step)
    for r in range(ROWS):
        with builder.if_then(
            builder.icmp_signed(">", rows, ir.Constant(_ADDRESS, r)), likely=True
        ):
            at_row = ir.Constant(_ADDRESS, r)
            offset = builder.mul(out_stride, at_row)
            given = builder.add(old, offset), add, builder.add(out, offset)
            entry = builder.add(entries, builder.mul(entry_stride, at_row))
            reducer = Reducer(write, entry)
            for g in groups:
                reducer.store(sums[r * width + g], *given, GROUP * g)
    return context.get_dummy_value()


class Reducer:
    """Sums modulo the p of an entry of the table, as residues of a byte.

    The bytes of a sum, biased to unsigned, weigh 2^(8 i) mod p: |raw| < 2^18, so that
    raw, and raw less a multiple of p near it, are exact in float32. The quotient is off
    by 2^-5 / p at most, and raw / p is 1 / (2 p) or more away from a tie for odd p; for
    p = 256 it is exact, and a tie gives +-128, whose low bytes are equal.
    """

    def __init__(self, write: Writer, entry: Any) -> None:
        kinds = (_WORD, _WORD, _SINGLE, _SINGLE)
        self.write = write
        self.weights, self.start, self.p, self.inverse = (
            write.fill(write.load(entry, 4 * place, kind))
            for place, kind in enumerate(kinds)
        )

    def store(self, sums: Any, old: Any, add: Any, out: Any, place: int) -> None:
        """Write residues `place` bytes after `out`; add those at `old` if `add`."""
        write, builder = self.write, self.write.builder
        rint = write.declare("llvm.rint.v16f32", _SINGLES, _SINGLES)
        fma = write.declare("llvm.fma.v16f32", _SINGLES, *(_SINGLES,) * 3)
        before = builder.block
        with builder.if_then(add):
            residues = builder.sext(write.load(old, place, _RESIDUES), WORDS)
            added, adding = builder.add(sums, residues), builder.block
        total = builder.phi(WORDS)
        total.add_incoming(sums, before)
        total.add_incoming(added, adding)
        raw = write.add_products(
            self.start, write.flip(total, 0x80000000), self.weights
        )
        value = builder.sitofp(raw, _SINGLES)
        quotient = builder.call(rint, [builder.fmul(value, self.inverse)])
        left = builder.call(fma, [builder.fneg(quotient), self.p, value])
        residue = builder.trunc(builder.fptosi(left, WORDS), _RESIDUES)
        write.store(residue, out, place)


multiply_one, multiply_two, multiply_three = map(_multiplier, range(1, WIDEST + 1))
