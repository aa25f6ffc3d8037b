"""Instructions on vectors of this CPU, in LLVM IR through Numba.

Numba has no names for vectors of 512 bits and for VNNI's ``vpdpbusd``, which adds four
products u8 x s8 to each of 16 sums. On Arm ``sdot`` adds four products s8 x s8 to each
of four, and ``smmla`` eight. Elsewhere ``vpmaddwd`` or plain code adds two products of
16 bits.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ..planes import GROUP
from ..units import count_lanes, find_features

_BYTE, _WORD, _SINGLE = ir.IntType(8), ir.IntType(32), ir.FloatType()
_ADDRESS = ir.IntType(64)
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

    def takes_signed(self) -> bool:
        """Tell whether one instruction adds four products of signed bytes: on Arm."""
        return count_lanes() == 0 and "dotprod" in find_features()

    def takes_squares(self) -> bool:
        """Tell whether one adds those of two rows by two columns, eight bytes each."""
        return self.takes_signed() and "i8mm" in find_features()

    def adds_fours(self) -> bool:
        """Tell whether one instruction adds products of four bytes."""
        return count_lanes() == self.lanes or self.takes_signed()

    def add_products(self, sums: Any, unsigned: Any, signed: Any) -> Any:
        """sums[i] += the products of four bytes each."""
        builder = self.builder
        if count_lanes() == self.lanes:
            # As LLVM had it before 22, which takes it still.
            name = f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"
            step = self.declare(name, self.words, *(self.words,) * 3)
            return builder.call(step, [sums, unsigned, signed])
        if self.takes_signed():
            # u y = (u - 128) y + 64 y + 64 y
            flipped, half = self.flip(unsigned, 0x80808080), self.splat(0x40404040)
            for x in (flipped, half, half):
                sums = self.add_signed(sums, x, signed)
            return sums
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

    def add_signed(self, sums: Any, x: Any, y: Any) -> Any:
        """sums[i] += the products of four bytes each, both signed."""
        low, high = (
            self.call_arm("sdot", *(self.pick(t, t, half) for t in (sums, x, y)))
            for half in (range(4), range(4, 8))
        )
        return self.pick(low, high, range(8))

    def call_arm(self, name: str, sums: Any, x: Any, y: Any) -> Any:
        """Add products of bytes to four sums."""
        bytes_ = ir.VectorType(_BYTE, 16)
        kinds = sums.type, bytes_, bytes_
        step = self.declare(f"llvm.aarch64.neon.{name}.v4i32.v16i8", sums.type, *kinds)
        given = [self.builder.bitcast(t, bytes_) for t in (x, y)]
        return self.builder.call(step, [sums, *given])

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
