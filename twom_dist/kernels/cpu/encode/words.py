"""Lines of 64 entries in registers: scaled, rounded, cut into words, transposed.

Written in LLVM IR through Numba, because as separate loops each of these steps went
through L1 once more. LLVM fits the vectors to any CPU.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..jit import instructions
from ..planes import DEPTH, GROUP
from ..products.writer import Writer

WORD_BITS = 30  # x' = sum_t word[t] 2^(30 t), |word[t]| <= 2^29 except the last
EIGHT = 8  # numbers of a vector of what is loaded
# Bytes of the words of 16 rows, and of all of an order in a line.
ROWS_BYTES = GROUP * 4
ORDER_BYTES = DEPTH * ROWS_BYTES
# A number below 2^31 is rounded by adding this, and the lower half of the sum is that
# of the integer plus 2^31: words are kept so, unsigned.
_ROUNDING = 1.5 * 2.0**52 + 2.0**31
_ADDRESS, _DOUBLE, _WORD = ir.IntType(64), ir.DoubleType(), ir.IntType(32)
_SINGLES = ir.VectorType(ir.FloatType(), EIGHT)
_DOUBLES, _WORDS = ir.VectorType(_DOUBLE, EIGHT), ir.VectorType(_WORD, GROUP)
_ROWS = ("r0", "r1", "r2", "r3")  # bits of the number of a row in its group


@dataclass(frozen=True)
class _Order:
    """Where the entries of a step lie: names of bits, the lowest first."""

    vectors: tuple[str, ...]  # bits of a vector's number
    numbers: tuple[str, ...]  # bits of the place of a number in a vector of eight
    # list of (bit, places, bit): a bit of vectors' numbers that becomes one of the
    # places of words, where they are then, and the bit that takes its place; first of
    # all None, for the upper halves of sums.
    turns: list[tuple[str, tuple[str, ...], str | None]]


# Bits c0, c1, c2 tell columns and parts: (part, column, column) or three of columns.
_ALONG = _Order(
    _ROWS,
    ("c0", "c1", "c2"),
    [
        ("r0", ("c0", "r0", "c1", "c2"), None),
        ("r1", ("r0", "r1", "c1", "c2"), "c0"),
        ("r2", ("r0", "r1", "c2", "r2"), "c1"),
        ("r3", _ROWS, "c2"),
    ],
)
_ACROSS_COMPLEX = _Order(
    ("c1", "c2", "r2", "r3"),
    ("c0", "r0", "r1"),
    [("r2", ("c0", "r2", "r0", "r1"), None), ("r3", _ROWS, "c0")],
)
_ACROSS_REAL = _Order(
    ("c0", "c1", "c2", "r3"), ("r0", "r1", "r2"), [("r3", _ROWS, None)]
)


class _Writer(Writer):
    def distance(self, counts: Iterable[int], strides: Iterable[Any]) -> Any:
        """Sum strides, each so many times."""
        total = ir.Constant(_ADDRESS, 0)
        for number, stride in zip(counts, strides, strict=True):
            step = self.builder.mul(stride, ir.Constant(_ADDRESS, number))
            total = self.builder.add(total, step)
        return total


def _bits(number: int, count: int) -> list[int]:
    return [number >> i & 1 for i in range(count)]


def _turn(
    write: _Writer, order: _Order, sums: list[Any]
) -> Iterator[tuple[dict[str, int], Any]]:
    """Make vectors of 16 rows of the lower halves of sums; tell their bits apart."""
    vectors, places = list(order.vectors), ["half", *order.numbers]
    held = dict(enumerate(write.builder.bitcast(x, _WORDS) for x in sums))
    for bit, then, other in order.turns:
        index, found = vectors.index(bit), {}
        for number, upper in product(held, (0, 1) if other else (0,)):
            if number >> index & 1:
                continue
            mask = []
            for place in range(GROUP):
                own = dict(zip(then, _bits(place, 4), strict=True))
                own[other or "half"] = upper
                source = sum(own[name] << i for i, name in enumerate(places))
                mask.append(source + GROUP * own[bit])
            pair = held[number], held[number | 1 << index]
            found[number | upper << index] = write.pick(*pair, mask)
        held, places, vectors[index] = found, list(then), other or "none"
    for number, rows in held.items():
        yield dict(zip(vectors, _bits(number, len(vectors)), strict=True)), rows


def _write_words(
    write: _Writer, order: _Order, values: list[Any], count: Any, out: Any, strides: Any
) -> None:
    """Cut values into `count` words, the least significant first, and store them."""
    builder = write.builder
    down, up, rounding = (
        ir.Constant(_DOUBLES, [x] * EIGHT)
        for x in (2.0**-WORD_BITS, -(2.0**WORD_BITS), _ROUNDING)
    )
    rint = write.declare("llvm.rint.v8f64", _DOUBLES, _DOUBLES)

    def store(t: Any, lows: list[Any]) -> None:
        here = builder.add(out, builder.mul(t, ir.Constant(_ADDRESS, ORDER_BYTES)))
        sums = [builder.fadd(low, rounding) for low in lows]
        for bits, rows in _turn(write, order, sums):
            own = [bits[name] for name in ("c0", "c1", "c2")]
            write.store(rows, here, write.distance(own, strides))

    def split(t: Any, *values: Any) -> list[Any]:
        highs, lows = [], []
        for v in values:
            highs.append(builder.call(rint, [builder.fmul(v, down)]))
            lows.append(write.add_exact(v, highs[-1], up))
        store(t, lows)
        return highs

    last = builder.sub(count, ir.Constant(_ADDRESS, 1))
    store(last, write.repeat(last, values, split))


_PAIR, _THREE, _FOUR = (types.UniTuple(types.intp, n) for n in (2, 3, 4))
_GIVEN = (
    *(None, types.intp, _THREE, _PAIR, _PAIR, types.float64),
    *(types.intp, types.intp, _FOUR, types.intp),
)


def _quantise(
    order, builder, zero, source, strides, columns, factors, sign, count, out, to, steps
):
    """Write the words of 16 rows, whose numbers have the type of `zero`.

    Takes the address of the first of them, distances of rows, columns and steps; the
    address of factors of columns, and how far on those of the next step are; the
    addresses of two factors of each row; what multiplies those of every other number;
    how many words a number has, ORDER_BYTES apart; the address of the first ones,
    distances of numbers that differ in c0, c1 and c2, and of steps; and the steps.
    Distances are in bytes, factors float64.
    """
    write, kind = (
        _Writer(builder, EIGHT),
        _DOUBLES if zero.type == _DOUBLE else _SINGLES,
    )
    strides, columns, factors, to = (
        cgutils.unpack_tuple(builder, x) for x in (strides, columns, factors, to)
    )
    ones = ir.Constant(_DOUBLES, [1.0] * EIGHT)
    signs = write.pick(ones, write.fill(sign), [0, EIGHT] * (EIGHT // 2))
    # Rows of a vector.
    side = 1 << sum(name in _ROWS for name in order.numbers)
    sources, own_columns = [], []
    own_factors: list[list[Any]] = []
    for number in range(GROUP):
        bits = dict(zip(order.vectors, _bits(number, 4), strict=True))
        row = sum(bits[name] << i for i, name in enumerate(_ROWS) if name in bits)
        kept = [bit for name, bit in bits.items() if name not in _ROWS]
        own_columns.append(sum(bit << i for i, bit in enumerate(kept)))
        offset = write.distance((row, own_columns[-1]), strides[:2])
        sources.append(builder.add(source, offset))
        own_factors.append([])
        for factor in factors:
            found = write.load(factor, 8 * row, ir.VectorType(_DOUBLE, side))
            places = [i * side // EIGHT for i in range(EIGHT)]
            own_factors[-1].append(write.pick(found, found, places))

    # Columns are far apart: no unit of the CPU's fetches the same of the next rows.
    ahead = builder.mul(strides[0], ir.Constant(_ADDRESS, GROUP))

    def write_step(step: Any) -> list[Any]:
        place, values = builder.mul(step, strides[-1]), []
        column = builder.add(columns[0], builder.mul(step, columns[1]))
        if side == 1:
            own = [write.load(column, 0, _DOUBLES)] * GROUP
        else:
            own = [write.fill(write.load(column, 8 * i, _DOUBLE)) for i in own_columns]
        for x, y, z in zip(sources, own, own_factors, strict=True):
            found, factor = write.load(x, place, kind), builder.fmul(y, signs)
            if kind != _DOUBLES:
                found = builder.fpext(found, _DOUBLES)
            if side > 1:
                there = builder.add(x, builder.add(place, ahead))
                write.fetch(there, writing=False, cache=2)
            for other in (factor, *z):
                found = builder.fmul(found, other)
            values.append(found)
        target = builder.add(out, builder.mul(step, to[-1]))
        _write_words(write, order, values, count, target, to[:-1])
        return []

    write.repeat(steps, [], write_step)


quantise_along, quantise_complex_across, quantise_real_across = (
    instructions(partial(_quantise, order), given=_GIVEN)
    for order in (_ALONG, _ACROSS_COMPLEX, _ACROSS_REAL)
)
