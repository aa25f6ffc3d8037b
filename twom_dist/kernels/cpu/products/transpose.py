"""Squares of 16 x 16 elements, transposed in registers: LLVM IR through Numba.

LLVM fits the vectors to any CPU; as in the instructions, lanes of 16 bytes stay apart.
"""

from functools import partial
from typing import Any

from llvmlite import ir

from ..jit import instructions
from .writer import Writer

SIDE = 16
_BYTE, _WORD, _ADDRESS = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _interleave(write: Writer, a: Any, b: Any, first: int, squares: int) -> Any:
    """Take elements of a and b in turn, in each lane from `first` on."""
    size = SIDE * squares
    places = [
        SIDE * lane + first + t + source
        for lane in range(squares)
        for t in range(SIDE // 2)
        for source in (0, size)
    ]
    return write.pick(a, b, places)


def _turn(squares, element, builder, source, row_bytes, rows, out, out_bytes):
    """Put squares which lie side by side below one another, each turned.

    out[c, r] = source[min(r, rows - 1), c] of r < 16 and c < 16 squares. All but `rows`
    are addresses and distances in bytes.
    """
    write, kind = Writer(builder, SIDE), ir.VectorType(element, SIDE * squares)
    last = builder.sub(rows, ir.Constant(_ADDRESS, 1))
    lines = []
    for r in range(SIDE):
        row = ir.Constant(_ADDRESS, r)
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        lines.append(write.load(source, builder.mul(row, row_bytes), kind))
    # Each round doubles how many rows a line's neighbours come from.
    for _ in range(4):
        pairs = list(zip(lines[: SIDE // 2], lines[SIDE // 2 :], strict=True))
        lines = [
            _interleave(write, a, b, first, squares)
            for a, b in pairs
            for first in (0, SIDE // 2)
        ]
    for c in range(SIDE * squares):
        square, line = divmod(c, SIDE)
        places = range(SIDE * square, SIDE * (square + 1))
        lane = write.pick(lines[line], lines[line], places)
        write.store(lane, out, builder.mul(ir.Constant(_ADDRESS, c), out_bytes))


turn_one, turn_four, turn_words = (
    instructions(partial(_turn, squares, element))
    for squares, element in ((1, _BYTE), (4, _BYTE), (1, _WORD))
)
