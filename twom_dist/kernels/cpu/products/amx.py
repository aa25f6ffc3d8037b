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
# Tiles along k of a panel of right ones: 16 KiB, which stay in L1 while rows pass by.
_DEPTH = 8
# Lines of each right tile of the next panel that a step fetches.
_FETCHED = 2
# Rows of residues that are fetched before they are written.
_AHEAD = 8
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


# Left tiles lie in the order in which they are taken: those of the step after the next
# are fetched into L1 meanwhile, since the four of a step come from L2 in 85 cycles.
_PRODUCTS = """\
    tileloadd ($1,$5,1), %tmm6
    tileloadd ($0,$5,1), %tmm4
    tdpbssd %tmm6, %tmm4, %tmm0
    tileloadd 1024($0,$5,1), %tmm5
    tdpbssd %tmm6, %tmm5, %tmm2
    tileloadd ($2,$5,1), %tmm7
    tdpbssd %tmm7, %tmm4, %tmm1
    tdpbssd %tmm7, %tmm5, %tmm3
"""
_FETCHES = [f"    prefetcht0 {4 * _TILE + _LINE * i}($0)\n" for i in range(32)]
# A few after each instruction: at once they would keep its loads waiting.
_SPREAD = "".join(
    line + "".join(_FETCHES[4 * i : 4 * i + 4])
    for i, line in enumerate(_PRODUCTS.splitlines(keepends=True))
)
_MULTIPLY = f"""
    prefetcht1 ($3)
    prefetcht1 64($3)
    prefetcht1 ($4)
    prefetcht1 64($4)
{_SPREAD}"""


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

    Addresses, but `line`, bytes from row to row. Two lines each are fetched into L2,
    and left tiles into L1.
    """
    signature = types.void(*(types.intp,) * 6)
    return _instructions(_MULTIPLY, signature, "r,r,r,r,r,r,~{memory}")


# Tiles of sums, in memory: those of the second group of columns 64 bytes after the
# first, those of the second group of rows 16 rows below.
_PLACES = (0, _LINE, GROUP * _ROW_BYTES, GROUP * _ROW_BYTES + _LINE)


@intrinsic
def _load_sums(typing_context: Any, sums: Any, row_bytes: Any) -> Any:
    """Go on with sums that were stored."""
    text = "\n".join(f"tileloadd {x}($0,$1,1), %tmm{t}" for t, x in enumerate(_PLACES))
    return _instructions(text, types.void(*(types.intp,) * 2), "r,r,~{memory}")


@intrinsic
def _store_sums(typing_context: Any, sums: Any, row_bytes: Any) -> Any:
    """Write the sums."""
    text = "\n".join(f"tilestored %tmm{t}, {x}($0,$1,1)" for t, x in enumerate(_PLACES))
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
) -> Any:
    """out[row, j] = the sums of up to 4 groups of columns, modulo p.

    Addresses, but `row`, `groups` and `row_bytes`, as the microkernel has them. The
    line of a later row is fetched, to be written.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row, sums, groups, out, row_bytes, old, entry = args
        write = Writer(builder, GROUP)
        add = builder.icmp_signed("!=", old, ir.Constant(_ADDRESS, 0))
        reducer = Reducer(write, entry)
        source = builder.add(sums, builder.mul(row, ir.Constant(_ADDRESS, _ROW_BYTES)))
        offset = builder.mul(row, row_bytes)
        target, origin = builder.add(out, offset), builder.add(old, offset)
        ahead = builder.mul(row_bytes, ir.Constant(_ADDRESS, _AHEAD))
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

    return types.void(*(types.intp,) * 7), generate


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


# Bytes of the sums of 32 rows, of which there are two sets: one is written while the
# other is reduced; and of the last tiles of the right operand, before them.
_BLOCK = PAIR * _ROW_BYTES
_ENDS = _ACROSS * _TILE


@inner
def room_bytes(rows, steps):  # type: ignore[no-untyped-def]
    """Count the bytes of the room that `multiply_strip` takes."""
    pairs = -(-rows // PAIR)
    return _LINE + _ENDS + pairs * 2 * (_BLOCK + -(-steps // _WORDS) * _TILE)


@inner
def _turn_tiles(x, x_stride, steps, groups, strip, lo, hi):  # type: ignore[no-untyped-def]
    """Write pairs lo..hi of left tiles, in the order in which they are multiplied."""
    depth, pairs = -(-steps // _WORDS), (groups + 1) // 2
    for place in range(lo, hi):
        chunk = place // (pairs * _DEPTH) * _DEPTH
        pair, t = divmod(place - chunk * pairs, min(_DEPTH, depth - chunk))
        t += chunk
        # Words beyond the last meet zeros.
        words = min(_WORDS, steps - t * _WORDS)
        for group in range(2 * pair, min(groups, 2 * pair + 2)):
            target = strip + (2 * place + group % 2) * _TILE
            turn_words(x + group * x_stride + t * _TILE, _LINE, words, target, _LINE)


@inner
def multiply_strip(  # type: ignore[no-untyped-def]
    x, x_stride, y, y_stride, steps, out, old, row, rows, first, last, entry, room
):
    """Multiply rows of a plane by groups first..last of another, `steps` words of k.

    As the microkernel's loops do, whose arguments these are but for `room`. A panel of
    right tiles, 2 groups by `_DEPTH`, stays in L1 while the rows pass by; their sums
    are stored until the next panel of these groups. Meanwhile finished sums are
    reduced, and at first left tiles are turned: vectors have units of their own, but
    the processor does not look far ahead.
    """
    row_bytes, out_base, table = out.strides[0], out.ctypes.data, entry.ctypes.data
    depth, pairs = -(-steps // _WORDS), -(-rows // PAIR)
    ends = (room.ctypes.data + _LINE - 1) // _LINE * _LINE
    sums, strip = ends + _ENDS, ends + _ENDS + 2 * pairs * _BLOCK
    turn = x + row // GROUP * x_stride, x_stride, steps, -(-rows // GROUP), strip
    tiles, turned = pairs * depth, min(pairs * depth, _DEPTH)
    _turn_tiles(*turn, 0, turned)
    # Rows whose sums are ready, and those that are reduced: groups of columns, sums,
    # and where residues go.
    ready, done, across, found, target, origin = 0, 0, 0, sums, 0, 0
    for j in range(first, last, _ACROSS):
        groups = min(_ACROSS, last - j)
        for g in range(groups):
            end = y + (j + g) * y_stride + (depth - 1) * _TILE
            last_words = steps - (depth - 1) * _WORDS
            _copy_words(end, last_words, ends + g * _TILE)
        # Rows that a step reduces.
        each = -(-rows // (tiles * ((groups + 1) // 2)))
        for g in range(0, groups, 2):
            h = min(g + 1, groups - 1)
            one, two = y + (j + g) * y_stride, y + (j + h) * y_stride
            for chunk in range(0, depth, _DEPTH):
                own = min(_DEPTH, depth - chunk)
                # The panel that follows: of these groups, of others, of the next strip.
                after, start = j + g, chunk + own
                if start == depth:
                    after, start = j + g + 2 if j + g + 2 < last else first, 0
                ahead = (after - j - g) * y_stride + (start - chunk) * _TILE
                is_last = g + 2 >= groups and chunk + own == depth
                if is_last:
                    for r in range(done, ready):
                        _reduce_row(r, found, across, target, row_bytes, origin, table)
                    ready, done, across, found = 0, 0, groups, sums
                    place = row * row_bytes + j * GROUP
                    target, origin = out_base + place, old + place if old != 0 else 0
                for i in range(pairs):
                    block = sums + i * _BLOCK + g * _LINE
                    if chunk == 0:
                        _zero_sums()
                    else:
                        _load_sums(block, _ROW_BYTES)
                    for t in range(own):
                        step = chunk * pairs + i * own + t
                        at = (chunk + t) * _TILE
                        right = one + at, two + at
                        # Each step fetches some lines of what lies so far ahead.
                        fetch = (i * own + t) * _FETCHED * _LINE
                        fetch = fetch + ahead - t * _TILE if fetch < own * _TILE else 0
                        fetched = right[0] + fetch, right[1] + fetch
                        if chunk + t == depth - 1:
                            right = ends + g * _TILE, ends + h * _TILE
                        left = strip + step * 2 * _TILE
                        _multiply_tiles(left, *right, *fetched, _LINE)
                        if turned < tiles:
                            _turn_tiles(*turn, turned, turned + 1)
                            turned += 1
                        for r in range(done, min(ready, done + each)):
                            _reduce_row(
                                r, found, across, target, row_bytes, origin, table
                            )
                            done = r + 1
                    _store_sums(block, _ROW_BYTES)
                    if is_last:
                        ready = min(rows, (i + 1) * PAIR)
        sums = strip - pairs * _BLOCK if sums == ends + _ENDS else ends + _ENDS
    for r in range(done, ready):
        _reduce_row(r, found, across, target, row_bytes, origin, table)
