"""Sums of int8 products that never leave the registers: 8 rows by 16, 32 or 48.

Operands are stored as in `CpuEncoded`. A step loads 16 rows of the right operand, four
neighbours along k of each row, and multiplies them by four entries of a row of the left
operand, repeated in a vector: 24 vectors of sums take 24 instructions, and 11 loads.
AVX has half as many vectors of half the length, and sums 4 rows by 24 at a time: 12
instructions, 7 loads. Arm has as many vectors of a quarter of the length: 24
instructions, 7 loads. Instructions that multiply two rows by two columns, 8 neighbours
of each, take two steps at a time.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..jit import instructions
from ..planes import DEPTH, GROUP
from .writer import Writer, make_writer

ROWS = 8  # rows of the left operand; half a group
WIDEST = 3  # groups of the right operand that one call may take

_STEP = GROUP * DEPTH  # bytes of a group that one vector holds
BIAS = 0x80000000  # what sums are too large, so that they are unsigned
_BYTE, _WORD, _SINGLE = ir.IntType(8), ir.IntType(32), ir.FloatType()
_ADDRESS = ir.IntType(64)
# A number below 2^22 is rounded by adding this, and the last bits of the sum are those
# of the integer.
_ROUNDING = 1.5 * 2.0**23


@instructions(given=(types.intp, types.intp, types.int32, types.intp))
def sum_rows(builder, x, steps, factor, out):
    """out[r] = 2^31 + factor times the sum of row r of a group, r < 16."""
    write = make_writer(builder)
    ones = write.splat(0x01010101)
    places = range(0, _STEP, DEPTH * write.lanes)

    def add(step: Any, *sums: Any) -> list[Any]:
        here = builder.add(x, builder.mul(step, ir.Constant(_ADDRESS, _STEP)))
        return [
            write.add_products(own, ones, write.load(here, place, write.words))
            for own, place in zip(sums, places, strict=True)
        ]

    sums = write.repeat(steps, [write.splat(0) for _ in places], add)
    for own, place in zip(sums, places, strict=True):
        total = builder.mul(own, write.fill(factor))
        write.store(write.flip(total, BIAS), out, place)


@instructions(result=types.int32)
def find_offset(builder):
    """Find what is added to bytes of the right operand: 128 where they are unsigned."""
    signed = make_writer(builder).takes_signed()
    return ir.Constant(_WORD, 0 if signed else 128)


def multiply_panel(
    width,
    builder,
    zero,
    x,
    y,
    y_stride,
    steps,
    starts,
    out,
    out_stride,
    rows,
    old,
    entry,
):
    """out[r, j] = starts[r] + the sum over 4 steps of x[r] (y[j] + offset), modulo p.

    r < `rows` <= 8; j < 16 width. All but `rows` are addresses and distances in bytes:
    of x and y their first words, `y_stride` from group to group of y. `find_offset` has
    the offset. Residues at `old` are added, with the strides of `out`, unless that is
    0; it may be `out`. `zero` has their type: of bytes `entry` is what `Reducer` takes,
    of int32 what `Words` does.
    """
    kind = Reducer if zero.type == _BYTE else Words
    add = builder.icmp_signed("!=", old, ir.Constant(_ADDRESS, 0))
    write = make_writer(builder)
    halves = GROUP // write.lanes
    vectors = [
        builder.add(
            builder.add(y, builder.mul(y_stride, ir.Constant(_ADDRESS, v // halves))),
            ir.Constant(_ADDRESS, v % halves * _STEP // halves),
        )
        for v in range(width * halves)
    ]
    # As many rows and vectors at a time as there are registers for: pairs take more.
    few = 3 if write.lanes == GROUP or write.adds_fours() else 2
    height, pieces = ROWS // halves, -(-len(vectors) // few)
    across = len(vectors) // pieces
    for top in range(0, ROWS, height):
        for left in range(0, len(vectors), across):
            panels = vectors[left : left + across]
            own = range(top, top + height)
            sums = _sum_products(write, x, panels, steps, starts, own)
            for r in own:
                at_row = ir.Constant(_ADDRESS, r)
                there = builder.icmp_signed(">", rows, at_row)
                with builder.if_then(there, likely=True):
                    offset = builder.mul(out_stride, at_row)
                    given = builder.add(old, offset), add, builder.add(out, offset)
                    residues = kind(write, entry)
                    for v in range(left, left + across):
                        residues.store(next(sums), *given, write.lanes * v)


def _sum_products(
    write: Writer, x: Any, panels: list[Any], steps: Any, starts: Any, rows: range
) -> Iterator[Any]:
    """Multiply rows of x by panels of vectors; the sums follow one another by rows."""
    builder = write.builder
    first = [write.fill(write.load(starts, 4 * r, _WORD)) for r in rows]
    sums, done = [s for s in first for _ in panels], ir.Constant(_ADDRESS, 0)
    if write.takes_squares():
        sums = _add_squares(write, x, panels, steps, sums, rows)
        done = builder.and_(steps, ir.Constant(_ADDRESS, -2))
    half, signed = write.lanes < GROUP, write.takes_signed()
    mask = write.splat(0x80808080)
    kept = cgutils.alloca_once_value(builder, mask) if half else None
    add = write.add_signed if signed else write.add_products

    def multiply_step(step: Any, *sums: Any) -> list[Any]:
        offset = builder.mul(builder.add(done, step), ir.Constant(_ADDRESS, _STEP))
        right = [write.load(panel, offset, write.words) for panel in panels]
        if not signed:
            flipped = write.reload(kept) if half else mask
            right = [builder.xor(y, flipped) for y in right]
        row, before, found = builder.add(x, offset), iter(sums), []
        for r in rows:
            left = write.fill(write.load(row, DEPTH * r, _WORD))
            found += [add(next(before), y, left) for y in right]
        return found

    return iter(write.repeat(builder.sub(steps, done), sums, multiply_step))


def _add_squares(
    write: Writer, x: Any, panels: list[Any], steps: Any, sums: list[Any], rows: range
) -> list[Any]:
    """Add products of two steps at a time, an odd last one left out, to such sums.

    An instruction multiplies 2 x 8 bytes by 8 x 2, and adds to four sums.
    """
    builder, four = write.builder, ir.VectorType(_WORD, 4)
    places = range(0, DEPTH * write.lanes, DEPTH * four.count)
    zero = ir.Constant(four, [0] * four.count)

    def load_pairs(address: Any) -> list[Any]:
        """Load four rows of two steps, and join them by pairs of rows."""
        one, two = (write.load(address, offset, four) for offset in (0, _STEP))
        return [write.pick(one, two, p) for p in ((0, 4, 1, 5), (2, 6, 3, 7))]

    def multiply_steps(step: Any, *squares: Any) -> list[Any]:
        offset = builder.mul(step, ir.Constant(_ADDRESS, 2 * _STEP))
        left = load_pairs(builder.add(x, builder.add(offset, first)))
        before, found = iter(squares), []
        for panel in panels:
            here = builder.add(panel, offset)
            for place in places:
                there = builder.add(here, ir.Constant(_ADDRESS, place))
                for y in load_pairs(there):
                    found += [write.call_arm("smmla", next(before), z, y) for z in left]
        return found

    first = ir.Constant(_ADDRESS, DEPTH * rows.start)
    count = len(sums) * write.lanes // four.count
    pairs = builder.lshr(steps, ir.Constant(_ADDRESS, 1))
    found = write.repeat(pairs, [zero] * count, multiply_steps)
    # They follow one another by panels, two columns, and two rows.
    added = []
    for r in range(len(rows)):
        across, own = found[r // 2 :: 2], (0, 1, 4, 5) if r % 2 == 0 else (2, 3, 6, 7)
        for i in range(0, len(across), write.lanes // 2):
            a, b, c, d = across[i : i + write.lanes // 2]
            halves = write.pick(a, b, own), write.pick(c, d, own)
            added.append(write.pick(*halves, range(write.lanes)))
    return [builder.add(s, t) for s, t in zip(sums, added, strict=True)]


class Reducer:
    """Sums modulo the p of an entry of `reduction_table`, as residues of a byte.

    The bytes of a sum, 2^31 too large and so unsigned, weigh 2^(8 i) mod p. What they
    make is a float32 by its bits; see `reduction`. The residue needs it, the quotient
    and -p modulo 256 alone, which one more step of VNNI puts together.
    """

    def __init__(self, write: Writer, entry: Any) -> None:
        kinds = (_WORD, _WORD, _WORD, _SINGLE)
        self.write = write
        self.weights, self.start, self.rest, self.inverse = (
            write.fill(write.load(entry, 4 * place, kind))
            for place, kind in enumerate(kinds)
        )

    def store(self, sums: Any, old: Any, add: Any, out: Any, place: int) -> None:
        """Write residues `place` bytes after `out`; add those at `old` if `add`."""
        found = self.find(sums, old, add, place)
        residues = self.write.builder.trunc(found, self.write.residues)
        self.write.store(residues, out, place)

    def find(self, sums: Any, old: Any, add: Any, place: int) -> Any:
        """Find residues, as lowest bytes; add those `place` after `old` if `add`."""
        write, builder = self.write, self.write.builder
        before = builder.block
        with builder.if_then(add):
            residues = builder.sext(write.load(old, place, write.residues), write.words)
            added, adding = builder.add(sums, residues), builder.block
        total = builder.phi(write.words)
        total.add_incoming(sums, before)
        total.add_incoming(added, adding)
        return self.reduce(write.add_products(self.start, total, self.weights))

    def reduce(self, total: Any) -> Any:
        """Find the residues of sums that began with `start`, as lowest bytes."""
        write, builder = self.write, self.write.builder
        kind, singles = f"v{write.lanes}f32", write.singles
        fma = write.declare(f"llvm.fma.{kind}", singles, *(singles,) * 3)
        value, rounding = builder.bitcast(total, singles), [_ROUNDING] * write.lanes
        quotient = builder.call(
            fma, [value, self.inverse, ir.Constant(singles, rounding)]
        )
        low = builder.bitcast(quotient, write.words)
        return write.add_products(total, low, self.rest)


class Words:
    """Sums modulo 2^32, as int32 has them, times the sign that an entry holds."""

    def __init__(self, write: Writer, entry: Any) -> None:
        self.write, self.sign = write, write.fill(write.load(entry, 0, _WORD))

    def store(self, sums: Any, old: Any, add: Any, out: Any, place: int) -> None:
        """Store sums `place` words after `out`; add those at `old` if `add`."""
        write, builder = self.write, self.write.builder
        found = builder.mul(write.flip(sums, BIAS), self.sign)
        before = builder.block
        with builder.if_then(add):
            added = builder.add(found, write.load(old, 4 * place, write.words))
            adding = builder.block
        total = builder.phi(write.words)
        total.add_incoming(found, before)
        total.add_incoming(added, adding)
        write.store(total, out, 4 * place)


_GIVEN = None, *(types.intp,) * 10
multiply_one, multiply_two, multiply_three = (
    instructions(partial(multiply_panel, width), given=_GIVEN)
    for width in range(1, WIDEST + 1)
)
