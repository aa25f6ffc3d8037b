"""Squares of 16 x 16 elements, turned in registers: in LLVM's own language by Numba.

Its vectors fit any CPU; lanes of 16 bytes stay apart, as the instructions have it.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

SIDE = 16
_BYTE, _WORD, _ADDRESS = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _mask(*places: int) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))


def _interleave(builder: Any, a: Any, b: Any, first: int, squares: int) -> Any:
    """Take elements of a and b in turn, in each lane from `first` on."""
    size = SIDE * squares
    places = [
        SIDE * lane + first + t + source
        for lane in range(squares)
        for t in range(SIDE // 2)
        for source in (0, size)
    ]
    return builder.shuffle_vector(a, b, _mask(*places))


def _turner(squares: int, element: Any) -> Any:
    """Make the function that puts squares which lie side by side below one another."""

    @intrinsic
    def turn(
        typing_context: Any,
        source: Any,
        row_bytes: Any,
        rows: Any,
        out: Any,
        out_bytes: Any,
    ) -> Any:
        signature = types.void(*(types.intp,) * 5)
        return signature, lambda *given: _write_turn(squares, element, *given)

    return turn


def _write_turn(
    squares: int, element: Any, context: Any, builder: Any, signature: Any, args: Any
) -> Any:
    """out[c, r] = source[min(r, rows - 1), c] of r < 16 and c < 16 squares.

    All but `rows` are addresses and distances in bytes.
    """
    source, row_bytes, rows, out, out_bytes = args
    kind, lane_kind = (ir.VectorType(element, SIDE * n) for n in (squares, 1))
    last = builder.sub(rows, ir.Constant(_ADDRESS, 1))
    lines = []
    for r in range(SIDE):
        row = ir.Constant(_ADDRESS, r)
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        address = builder.add(source, builder.mul(row, row_bytes))
        lines.append(builder.load(builder.inttoptr(address, kind.as_pointer())))
        lines[-1].align = 1
    # Each round doubles how many rows a line's neighbours come from.
    for _ in range(4):
        pairs = list(zip(lines[: SIDE // 2], lines[SIDE // 2 :], strict=True))
        lines = [
            _interleave(builder, a, b, first, squares)
            for a, b in pairs
            for first in (0, SIDE // 2)
        ]
    for c in range(SIDE * squares):
        square, line = divmod(c, SIDE)
        places = _mask(*range(SIDE * square, SIDE * (square + 1)))
        lane = builder.shuffle_vector(lines[line], lines[line], places)
        address = builder.add(out, builder.mul(ir.Constant(_ADDRESS, c), out_bytes))
        builder.store(lane, builder.inttoptr(address, lane_kind.as_pointer())).align = 1
    return context.get_dummy_value()


turn_one, turn_four = (_turner(squares, _BYTE) for squares in (1, 4))
turn_words = _turner(1, _WORD)
