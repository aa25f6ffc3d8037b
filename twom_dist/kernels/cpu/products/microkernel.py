"""Sums of int8 products that never leave the registers: 8 rows by 16, 32 or 48.

Written in LLVM's own language through Numba, for what Numba has no name for: vectors of
512 bits, and VNNI's ``vpdpbusd``, which adds four products u8 x s8 to each of 16 sums.
Operands lie as `CpuEncoded` has them. A step loads 16 rows of the right operand, four
neighbours along k of each, and multiplies them by four of a row of the left one, which
fill a vector: 24 sums take 24 instructions, and 11 loads. Where AVX has half of such
vectors, and half as many, 4 rows by 24 are summed at a time: 12 instructions, 7 loads.
Without VNNI ``vpmaddwd`` adds two products of 16 bits each; on Arm plain code does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..jit import instructions
from ..planes import DEPTH, GROUP
from ..units import count_lanes, find_features

ROWS = 8  # rows of the left operand; half a group
WIDEST = 3  # groups of the right operand that one call may take

_STEP = GROUP * DEPTH  # bytes of a group that one vector holds
BIAS = 0x80000000  # what sums are too large, so that they are unsigned
_BYTE, _WORD, _SINGLE = ir.IntType(8), ir.IntType(32), ir.FloatType()
_ADDRESS = ir.IntType(64)
# A number below 2^22 is rounded by adding this, and the last bits of the sum are those
# of the integer.
_ROUNDING = 1.5 * 2.0**23
# By words of a vector: what sums pairs of products of int16, and LLVM's name.
_PAIRS = {GROUP: ("avx512bw", "avx512.pmaddw.d.512"), 8: ("avx2", "avx2.pmadd.wd")}
_EXACT = ("contract",)  # contraction alone: a product and a sum may be fused


class Writer:
    """The instructions that the kernels share, on vectors of 16 or 8 words."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.words, self.singles, self.residues = (
            ir.VectorType(kind, lanes) for kind in (_WORD, _SINGLE, _BYTE)
        )

    def splat(self, number: int) -> Any:
        """Make a vector of a constant."""
        return ir.Constant(self.words, [number] * self.lanes)

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

    def fetch(self, address: Any, writing: bool = True, cache: int = 1) -> None:
        """Fetch a line into a cache, to be written or read: it may be in no memory."""
        kind = ir.IntType(8).as_pointer()
        given = int(writing), 4 - cache, 1
        name, flags = "llvm.prefetch.p0i8", [ir.Constant(_WORD, t) for t in given]
        call = self.declare(name, ir.VoidType(), kind, *(_WORD,) * 3)
        self.builder.call(call, [self.builder.inttoptr(address, kind), *flags])

    def pack(self, residues: Sequence[Any]) -> Any:
        """Make a word of the lowest bytes of four."""
        first, *others = residues
        kind = f"llvm.fshr.v{self.lanes}i32"
        append = self.declare(kind, self.words, *(self.words,) * 3)
        found = self.builder.shl(first, self.splat(24))
        for other in others:
            found = self.builder.call(append, [other, found, self.splat(8)])
        return found

    def fill(self, value: Any) -> Any:
        """Fill a vector with a number."""
        kind = ir.VectorType(value.type, self.lanes)
        none = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(none, value, ir.Constant(_WORD, 0))
        return self.builder.shuffle_vector(first, none, self.splat(0))

    def pick(self, a: Any, b: Any, places: Iterable[int]) -> Any:
        """Take elements of a and, after these, of b."""
        places = list(places)
        mask = ir.Constant(ir.VectorType(_WORD, len(places)), places)
        return self.builder.shuffle_vector(a, b, mask)

    def add_products(self, sums: Any, unsigned: Any, signed: Any) -> Any:
        """sums[i] += the products of four bytes each."""
        builder = self.builder
        if count_lanes() == self.lanes:
            # As LLVM had it before 22, which takes it still.
            name = f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"
            step = self.declare(name, self.words, *(self.words,) * 3)
            return builder.call(step, [sums, unsigned, signed])
        feature, name = _PAIRS[self.lanes]
        if feature in find_features():
            pairs = ir.VectorType(ir.IntType(16), 2 * self.lanes)
            step = self.declare(f"llvm.x86.{name}", self.words, pairs, pairs)
            byte, low = (ir.Constant(pairs, [x] * pairs.count) for x in (8, 255))
            x, y = (builder.bitcast(t, pairs) for t in (unsigned, signed))
            even = builder.and_(x, low), builder.ashr(builder.shl(y, byte), byte)
            odd = builder.lshr(x, byte), builder.ashr(y, byte)
            for pair in (even, odd):
                sums = builder.add(sums, builder.call(step, pair))
            return sums
        for place in range(0, 32, 8):
            below, above = self.splat(place), self.splat(24 - place)
            last, byte = self.splat(24), self.splat(255)
            x = builder.and_(builder.lshr(unsigned, below), byte)
            y = builder.ashr(builder.shl(signed, above), last)
            sums = builder.add(sums, builder.mul(x, y))
        return sums

    def add_exact(self, total: Any, x: Any, y: Any) -> Any:
        """Return total + x y, where the product is exact."""
        builder = self.builder
        return builder.fadd(total, builder.fmul(x, y, flags=_EXACT), flags=_EXACT)

    def subtract_exact(self, total: Any, x: Any, y: Any) -> Any:
        """Return total - x y, where the product is exact."""
        builder = self.builder
        return builder.fsub(total, builder.fmul(x, y, flags=_EXACT), flags=_EXACT)

    def reload(self, pointer: Any) -> Any:
        """Load what has not changed, since it would take a register to keep it."""
        kind = ir.FunctionType(ir.VoidType(), [pointer.type])
        self.builder.asm(kind, "", "r,~{memory}", [pointer], True)
        return self.builder.load(pointer)

    def flip(self, words: Any, mask: int) -> Any:
        """Exclusive or with a constant."""
        return self.builder.xor(words, self.splat(mask))

    def repeat(
        self, steps: Any, given: list[Any], body: Callable[..., Any]
    ) -> list[Any]:
        """Call ``body(step, *vectors)`` for each step; it returns the next vectors."""
        builder, before = self.builder, self.builder.block
        head, inner, after = (
            builder.append_basic_block(name) for name in ("head", "step", "done")
        )
        builder.branch(head)
        builder.position_at_end(head)
        step, held = builder.phi(_ADDRESS), [builder.phi(x.type) for x in given]
        builder.cbranch(builder.icmp_signed("<", step, steps), inner, after)
        builder.position_at_end(inner)
        found = body(step, *held)
        zero, one = ir.Constant(_ADDRESS, 0), ir.Constant(_ADDRESS, 1)
        following = builder.add(step, one)
        for phi, first, then in zip(
            (step, *held), (zero, *given), (following, *found), strict=True
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(then, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return held


def make_writer(builder: Any) -> Writer:
    """Write for the vectors of this CPU."""
    wide = GROUP if _PAIRS[GROUP][0] in find_features() else 8
    return Writer(builder, count_lanes() or wide)


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


def _multiply(
    width, builder, x, y, y_stride, steps, starts, out, out_stride, rows, old, entry
):
    """out[r, j] = starts[r] + the sum over 4 steps of x[r] (y[j] + 128), modulo p.

    r < `rows` <= 8; j < 16 width. All but `rows` are addresses and distances in bytes:
    of x and y their first words, `y_stride` from group to group of y. Residues at `old`
    are added, with the strides of `out`, unless that is 0; it may be `out`. `entry` is
    that of p; see `reduction_table`.
    """
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
    few = 2 if write.lanes < GROUP and count_lanes() == 0 else 3
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
                    reducer = Reducer(write, entry)
                    for v in range(left, left + across):
                        reducer.store(next(sums), *given, write.lanes * v)


def _sum_products(
    write: Writer, x: Any, panels: list[Any], steps: Any, starts: Any, rows: range
) -> Iterator[Any]:
    """Multiply rows of x by panels of vectors; the sums follow one another by rows."""
    builder = write.builder
    first = [write.fill(write.load(starts, 4 * r, _WORD)) for r in rows]
    half = write.lanes < GROUP
    mask = write.splat(0x80808080)
    kept = cgutils.alloca_once_value(builder, mask) if half else None

    def multiply_step(step: Any, *sums: Any) -> list[Any]:
        offset = builder.mul(step, ir.Constant(_ADDRESS, _STEP))
        flipped = write.reload(kept) if half else mask
        right = [
            builder.xor(write.load(panel, offset, write.words), flipped)
            for panel in panels
        ]
        row, before, found = builder.add(x, offset), iter(sums), []
        for r in rows:
            left = write.fill(write.load(row, DEPTH * r, _WORD))
            found += [write.add_products(next(before), y, left) for y in right]
        return found

    given = [s for s in first for _ in panels]
    return iter(write.repeat(steps, given, multiply_step))


class Reducer:
    """Sums modulo the p of an entry of the table, as residues of a byte.

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


multiply_one, multiply_two, multiply_three = (
    instructions(partial(_multiply, width)) for width in range(1, WIDEST + 1)
)
