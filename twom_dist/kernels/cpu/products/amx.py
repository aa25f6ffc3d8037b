"""Products by AMX: 32 x 32 sums of int8 products at a time, in tiles of 1 KiB.

A tile is 16 rows of 64 bytes. That of the right operand is 16 words of a group, as it
lies in `CpuEncoded`; that of the left one is the same KiB transposed, which a strip of
rows is once for all that it multiplies. The instructions are written as they are, since
neither Numba nor LLVM's vectors have a name for tiles: llvmlite assembles them for any
x86.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import initialize_native_asmparser
from numba import types
from numba.extending import intrinsic

from ..compiled import inner
from ..encoded import GROUP
from .microkernel import BIAS, Reducer, Writer
from .turning import turn_words

# Bytes of a tile, words along k that it holds, and bytes of one.
_TILE, _WORDS, _LINE = 1024, 16, 64
# Rows, and columns, that are multiplied at once: two groups.
PAIR = 2 * GROUP
# Groups of columns that are reduced at once, whose residues fill lines.
_ACROSS = _LINE // GROUP
# Bytes of a row of sums of such groups.
_ROW_BYTES = _ACROSS * _LINE
# Lines of a tile that are fetched at once, and the blocks that fetch all of it.
_FETCHED = 2
_FETCHES = _TILE // (_FETCHED * _LINE)
_ADDRESS = ir.IntType(64)

initialize_native_asmparser()

# What `ldtilecfg` reads: palette 1, then bytes of a row and rows, of eight tiles each.
CONFIGURATION = np.zeros(64, np.uint8)
CONFIGURATION[0] = 1
CONFIGURATION[16:32].view(np.uint16)[:] = 64
CONFIGURATION[48:56] = 16
CONFIGURATION.flags.writeable = False


def _instructions(text: str, signature: Any, constraints: str) -> Any:
    """Make the function that runs instructions, whose operands are its arguments."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [x.type for x in args])
        builder.asm(kind, text, constraints, args, True)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def configure_tiles(typing_context: Any, address: Any) -> Any:
    """Set up this thread's tiles, until `release_tiles`."""
    return _instructions("ldtilecfg ($0)", types.void(types.intp), "r,~{memory}")


@intrinsic
def release_tiles(typing_context: Any) -> Any:
    """Give up this thread's tiles: the system saves them as long as they are held."""
    return _instructions("tilerelease", types.void(), "~{memory}")


# Tiles 0-3 keep the sums from one of these functions to the next: LLVM has no use for
# tiles of its own, and no call in between changes them.
@intrinsic
def _zero_sums(typing_context: Any) -> Any:
    """Begin 2 x 2 tiles of sums."""
    text = "\n".join(f"tilezero %tmm{t}" for t in range(4))
    return _instructions(text, types.void(), "~{memory}")


_MULTIPLY = """
    prefetcht1 ($3)
    prefetcht1 64($3)
    prefetcht1 ($4)
    prefetcht1 64($4)
    tileloadd ($1,$5,1), %tmm6
    tileloadd ($0,$5,1), %tmm4
    tdpbssd %tmm6, %tmm4, %tmm0
    tileloadd 1024($0,$5,1), %tmm5
    tdpbssd %tmm6, %tmm5, %tmm2
    tileloadd ($2,$5,1), %tmm7
    tdpbssd %tmm7, %tmm4, %tmm1
    tdpbssd %tmm7, %tmm5, %tmm3
"""


@intrinsic
def _multiply_tiles(
    typing_context: Any,
    left: Any,
    first: Any,
    second: Any,
    ahead_first: Any,
    ahead_second: Any,
    line: Any,
) -> Any:
    """Add two left tiles times the right ones of two groups to the sums.

    Addresses, but `line`, bytes from row to row. Two lines each are fetched into L2.
    """
    signature = types.void(*(types.intp,) * 6)
    return _instructions(_MULTIPLY, signature, "r,r,r,r,r,r,~{memory}")


@intrinsic
def _store_sums(typing_context: Any, out: Any, row_bytes: Any) -> Any:
    """Write the sums: those of the second group of columns 64 bytes after the first."""
    text = """
    tilestored %tmm0, ($0,$1,1)
    tilestored %tmm1, 64($0,$1,1)
    tilestored %tmm2, 4096($0,$1,1)
    tilestored %tmm3, 4160($0,$1,1)
    """
    return _instructions(text, types.void(*(types.intp,) * 2), "r,r,~{memory}")


@intrinsic
def _reduce_row(
    typing_context: Any,
    row: Any,
    sums: Any,
    groups: Any,
    out: Any,
    row_bytes: Any,
    old: Any,
    entry: Any,
    ahead: Any,
) -> Any:
    """out[row, j] = the sums of up to 4 groups of columns, modulo p.

    Addresses, but `row`, `groups` and `row_bytes`, as the microkernel has them. The
    line that lies `ahead` bytes after the row is fetched, to be written.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row, sums, groups, out, row_bytes, old, entry, ahead = args
        write = Writer(builder, GROUP)
        add = builder.icmp_signed("!=", old, ir.Constant(_ADDRESS, 0))
        reducer = Reducer(write, entry)
        source = builder.add(sums, builder.mul(row, ir.Constant(_ADDRESS, _ROW_BYTES)))
        offset = builder.mul(row, row_bytes)
        target, origin = builder.add(out, offset), builder.add(old, offset)
        write.fetch(builder.add(target, ahead))

        def reduce_group(g: int) -> None:
            own = write.flip(write.load(source, g * _LINE, write.words), BIAS)
            reducer.store(own, origin, add, target, g * GROUP)

        reduce_group(0)
        for g in range(1, _ACROSS):
            there = builder.icmp_signed(">", groups, ir.Constant(_ADDRESS, g))
            with builder.if_then(there, likely=True):
                reduce_group(g)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 8), generate


@intrinsic
def _copy_words(typing_context: Any, source: Any, words: Any, out: Any) -> Any:
    """Copy the last words of a group, 1 to 16, into a tile; zeros follow them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, words, out = args
        write = Writer(builder, GROUP)
        last = builder.sub(words, ir.Constant(_ADDRESS, 1))

        def copy_line(line: Any) -> list[Any]:
            beyond = builder.icmp_signed(">", line, last)
            at_line, at_last = (
                builder.mul(x, ir.Constant(_ADDRESS, _LINE)) for x in (line, last)
            )
            found = write.load(
                source, builder.select(beyond, at_last, at_line), write.words
            )
            found = builder.select(beyond, write.repeated(0), found)
            write.store(found, out, at_line)
            return []

        write.repeat(ir.Constant(_ADDRESS, _WORDS), [], copy_line)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 3), generate


# Where the room of a strip has what, from the first whole line on: there are sums that
# are written, and sums that are reduced.
_SUMS = _ACROSS * _TILE
_STRIP = _SUMS + 2 * PAIR * _ROW_BYTES


@inner
def room_bytes(rows, steps):  # type: ignore[no-untyped-def]
    """Count the bytes of the room that `multiply_strip` takes."""
    return _LINE + _STRIP + -(-rows // PAIR) * -(-steps // _WORDS) * 2 * _TILE


@inner
def _turn_tiles(x, x_stride, steps, strip, lo, hi):  # type: ignore[no-untyped-def]
    """Write left tiles lo..hi, by groups of rows: those of a step lie together."""
    depth = -(-steps // _WORDS)
    for tile in range(lo, hi):
        group, t = divmod(tile, depth)
        target = strip + ((group // 2 * depth + t) * 2 + group % 2) * _TILE
        # Words beyond the last meet zeros.
        words = min(_WORDS, steps - t * _WORDS)
        turn_words(x + group * x_stride + t * _TILE, _LINE, words, target, _LINE)


@inner
def multiply_strip(  # type: ignore[no-untyped-def]
    x, x_stride, y, y_stride, steps, out, old, row, rows, first, last, entry, room
):
    """Multiply rows of a plane by groups first..last of another, `steps` words of k.

    As the microkernel's loops do, whose arguments these are but for `room`. While the
    tiles of a block are multiplied, sums of the block before are reduced, and at first
    left tiles of the next block are turned: vectors have units of their own, but the
    processor does not look a whole block ahead.
    """
    row_bytes, out_base, table = out.strides[0], out.ctypes.data, entry.ctypes.data
    base = (room.ctypes.data + _LINE - 1) // _LINE * _LINE
    ends, sums, strip = base, base + _SUMS, base + _STRIP
    depth = -(-steps // _WORDS)
    turn = x + row // GROUP * x_stride, x_stride, steps, strip
    tiles = -(-rows // GROUP) * depth
    turned = min(tiles, 2 * depth)
    _turn_tiles(*turn, 0, turned)
    # What waits to be reduced: rows, groups of columns, sums, and where residues go.
    waiting, across, found = 0, 0, sums + PAIR * _ROW_BYTES
    target, origin, below = 0, 0, 0
    for j in range(first, last, _ACROSS):
        groups = min(_ACROSS, last - j)
        for g in range(groups):
            end = y + (j + g) * y_stride + (depth - 1) * _TILE
            last_words = steps - (depth - 1) * _WORDS
            _copy_words(end, last_words, ends + g * _TILE)
        halves = (groups + 1) // 2
        each = 2 // halves  # tiles that a step turns: those of a pair in a block
        after = j + _ACROSS if j + _ACROSS < last else first
        for i in range(0, rows, PAIR):
            left = strip + i // PAIR * depth * 2 * _TILE
            # The first blocks fetch the columns that follow, or begin the next strip.
            ahead, fetch = 0, i // PAIR
            if fetch < _FETCHES:
                ahead = (after - j) * y_stride + fetch * _FETCHED * _LINE
            step, done, all_steps = 0, 0, depth * halves
            for g in range(0, groups, 2):
                h = min(g + 1, groups - 1)
                one, two = y + (j + g) * y_stride, y + (j + h) * y_stride
                _zero_sums()
                for t in range(depth):
                    at = t * _TILE
                    right = one + at, two + at
                    fetched = right[0] + ahead, right[1] + ahead
                    if t == depth - 1:
                        right = ends + g * _TILE, ends + h * _TILE
                    _multiply_tiles(left + 2 * at, *right, *fetched, _LINE)
                    if turned < tiles:
                        known, turned = turned, min(tiles, turned + each)
                        _turn_tiles(*turn, known, turned)
                    step += 1
                    while (done + 1) * all_steps <= step * waiting:
                        given = across, target, row_bytes, origin, table, below
                        _reduce_row(done, found, *given)
                        done += 1
                _store_sums(sums + g * _LINE, _ROW_BYTES)
            waiting, across, found, sums = min(PAIR, rows - i), groups, sums, found
            place = (row + i) * row_bytes + j * GROUP
            target, origin = out_base + place, old + place if old != 0 else 0
            below = PAIR * row_bytes if i + PAIR < rows else _LINE - i * row_bytes
    for r in range(waiting):
        _reduce_row(r, found, across, target, row_bytes, origin, table, below)
