"""Products by AMX: 32 x 32 sums of int8 products at a time, in tiles of 1 KiB.

A tile is 16 rows of 64 bytes. A tile of the right operand is 16 words of a group, as
stored in `CpuEncoded`. A tile of the left operand is the same KiB transposed; each
strip of rows is transposed once for all its products.
"""

from typing import Any

from llvmlite import ir

from ..jit import inner, instructions
from ..planes import DEPTH, GROUP
from .amx_steps import (
    ACROSS,
    LINE,
    ROW_BYTES,
    TILE,
    begin_block,
    multiply_tiles,
    resume_block,
    store_sums,
    zero_sums,
)
from .microkernel import BIAS, Reducer
from .transpose import turn_words
from .writer import Writer

_WORDS = 16  # words along k that a tile holds
PAIR = 2 * GROUP  # rows, and columns, that are multiplied at once: two groups
# Bytes from the sums of 32 rows to the next ones, of which there are two sets: one is
# written while the other is reduced. Two lines more: while the sums of a block are
# stored, those of the next one are loaded, and lie no multiple of 4 KB from them.
_BLOCK = PAIR * ROW_BYTES + 2 * LINE
_DEPTH = 8  # tiles along k of a panel of right ones: 16 KiB, which stay in L1
_FETCHED = 2 * LINE  # bytes of each side of the next right tiles that a step fetches
_AHEAD = 8  # rows of residues that are fetched before they are written
_ADDRESS, _BYTE = ir.IntType(64), ir.IntType(8)


@instructions
def _reduce_row(builder, row, sums, groups, out, row_bytes, old, entry):
    """out[row, j] = the sums of up to 4 groups of columns, modulo p.

    Addresses, but `row`, `groups` and `row_bytes`, as the microkernel has them. The
    line of a later row is fetched, to be written.
    """
    write = Writer(builder, GROUP)
    add = builder.icmp_signed("!=", old, ir.Constant(_ADDRESS, 0))
    reducer = Reducer(write, entry)
    block, row_of_block = (
        op(row, ir.Constant(_ADDRESS, PAIR)) for op in (builder.udiv, builder.urem)
    )
    source = builder.add(sums, builder.mul(block, ir.Constant(_ADDRESS, _BLOCK)))
    place = builder.mul(row_of_block, ir.Constant(_ADDRESS, ROW_BYTES))
    source = builder.add(source, place)
    offset = builder.mul(row, row_bytes)
    target, origin = builder.add(out, offset), builder.add(old, offset)
    ahead = builder.mul(row_bytes, ir.Constant(_ADDRESS, _AHEAD))
    write.fetch(builder.add(target, ahead))

    def find(g: int) -> Any:
        own = write.flip(write.load(source, g * LINE, write.words), BIAS)
        return reducer.find(own, origin, add, g * GROUP)

    whole = builder.icmp_signed("==", groups, ir.Constant(_ADDRESS, ACROSS))
    with builder.if_else(whole) as (one_line, some):
        with one_line:
            # Seven micro-operations; four vectors by themselves take 16.
            words = write.pack([find(g) for g in range(ACROSS)])
            places = [DEPTH * i + g for g in range(ACROSS) for i in range(GROUP)]
            line = builder.bitcast(words, ir.VectorType(_BYTE, LINE))
            write.store(write.pick(line, line, places), target, 0)
        with some:
            for g in range(ACROSS - 1):
                there = builder.icmp_signed(">", groups, ir.Constant(_ADDRESS, g))
                with builder.if_then(there, likely=True):
                    residues = builder.trunc(find(g), write.residues)
                    write.store(residues, target, g * GROUP)


@inner
def _reduce_rows(lo, hi, sums, groups, out, row_bytes, old, entry):
    for row in range(lo, hi):
        _reduce_row(row, sums, groups, out, row_bytes, old, entry)


@instructions
def _copy_words(builder, source, words, out):
    """Copy the last words of a group, 1 to 16, into a tile; zeros follow them."""
    write = Writer(builder, GROUP)
    last = builder.sub(words, ir.Constant(_ADDRESS, 1))

    def copy_line(line: Any) -> list[Any]:
        beyond = builder.icmp_signed(">", line, last)
        at_line, at_last = (
            builder.mul(x, ir.Constant(_ADDRESS, LINE)) for x in (line, last)
        )
        place = builder.select(beyond, at_last, at_line)
        found = write.load(source, place, write.words)
        found = builder.select(beyond, write.splat(0), found)
        write.store(found, out, at_line)
        return []

    write.repeat(ir.Constant(_ADDRESS, _WORDS), [], copy_line)


_ENDS = ACROSS * TILE  # bytes of the last tiles of the right operand, before the sums


@inner
def room_bytes(rows, steps):
    """Count the bytes of the room that `multiply_strip` takes."""
    pairs = -(-rows // PAIR)
    return LINE + _ENDS + pairs * 2 * (_BLOCK + -(-steps // _WORDS) * TILE)


@inner
def _turn_tiles(x, x_stride, steps, groups, strip, lo, hi):
    """Write pairs lo..hi of left tiles, in the order in which they are multiplied."""
    depth, pairs = -(-steps // _WORDS), (groups + 1) // 2
    for place in range(lo, hi):
        chunk = place // (pairs * _DEPTH) * _DEPTH
        pair, t = divmod(place - chunk * pairs, min(_DEPTH, depth - chunk))
        t += chunk
        # Words beyond the last meet zeros.
        words = min(_WORDS, steps - t * _WORDS)
        for group in range(2 * pair, min(groups, 2 * pair + 2)):
            target = strip + (2 * place + group % 2) * TILE
            turn_words(x + group * x_stride + t * TILE, LINE, words, target, LINE)


@inner
def _go_on(
    steps, left, right, other, last, fetched, beside, fetch, done, ready, each, rows
):
    """Multiply the tiles of a block after the first ones, and reduce rows meanwhile.

    Addresses of tiles, of the last right ones, and of what is fetched, `fetch` bytes
    further on in each step; `each`: rows of done..ready that a step reduces; `rows`:
    what else `_reduce_row` takes. Returns the rows that are reduced.
    """
    for t in range(steps):
        if t > 0:
            left, right, other = left + 2 * TILE, right + TILE, other + TILE
            fetched, beside = fetched + fetch, beside + fetch
            if t == steps - 1:
                right, other = last
            multiply_tiles(left, right, other, fetched, beside, LINE)
        for row in range(done, min(ready, done + each)):
            _reduce_row(row, *rows)
            done = row + 1
    return done


@inner
def multiply_strip(
    x, x_stride, y, y_stride, steps, out, old, row, rows, first, last, entry, room
):
    """Multiply rows of a plane by groups first..last of another, `steps` words of k.

    As the microkernel's loops do, whose arguments these are, except `room`. A panel of
    right tiles, 2 groups by `_DEPTH`, stays in L1 while the rows pass by; their sums
    are stored until the next panel of these groups, between the first instructions of
    the following block. Meanwhile finished sums are reduced, and at first left tiles
    are turned: vectors have their own units, but processors do not look far ahead.
    """
    row_bytes, out_base, table = out.strides[0], out.ctypes.data, entry.ctypes.data
    depth, pairs = -(-steps // _WORDS), -(-rows // PAIR)
    ends = (room.ctypes.data + LINE - 1) // LINE * LINE
    sums, strip = ends + _ENDS, ends + _ENDS + 2 * pairs * _BLOCK
    turn = x + row // GROUP * x_stride, x_stride, steps, -(-rows // GROUP), strip
    tiles, turned = pairs * depth, min(pairs * depth, _DEPTH)
    _turn_tiles(*turn, 0, turned)
    # Whether sums are in the tiles, their block, and rows that are ready with it.
    summed, block, complete = False, sums, 0
    # Rows whose sums are ready, and those that are reduced: groups of columns, sums,
    # and where residues go.
    ready, done, across, found, target, origin = 0, 0, 0, sums, 0, 0
    for j in range(first, last, ACROSS):
        groups = min(ACROSS, last - j)
        for g in range(groups):
            end = y + (j + g) * y_stride + (depth - 1) * TILE
            last_words = steps - (depth - 1) * _WORDS
            _copy_words(end, last_words, ends + g * TILE)
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
                ahead = (after - j - g) * y_stride + (start - chunk) * TILE
                is_last = g + 2 >= groups and chunk + own == depth
                right, other = one + chunk * TILE, two + chunk * TILE
                ends_here = right + (own - 1) * TILE, other + (own - 1) * TILE
                if chunk + own == depth:
                    ends_here = ends + g * TILE, ends + h * TILE
                if own == 1:
                    right, other = ends_here
                for i in range(pairs):
                    before, block = block, sums + i * _BLOCK + g * LINE
                    left = strip + (chunk * pairs + i * own) * 2 * TILE
                    # The first blocks fetch that panel, each step some lines of it.
                    fetch, offset = 0, 0
                    if i * _FETCHED < TILE:
                        fetch, offset = _FETCHED, ahead + i * own * _FETCHED
                    panel = chunk * TILE + offset
                    fetched = one + panel, two + panel
                    given = left, right, other, *fetched, LINE
                    if not summed:
                        zero_sums()
                        multiply_tiles(*given)
                    elif chunk == 0:
                        begin_block(*given, before, ROW_BYTES, block)
                    else:
                        resume_block(*given, before, ROW_BYTES, block)
                    # The block before is in memory now.
                    ready, summed = max(ready, complete), True
                    complete = min(rows, (i + 1) * PAIR) if is_last else 0
                    if is_last and i == 0:
                        place = across, target, row_bytes, origin, table
                        _reduce_rows(done, ready, found, *place)
                        ready, done, across, found = 0, 0, groups, sums
                        offset = row * row_bytes + j * GROUP
                        target = out_base + offset
                        origin = old + offset if old != 0 else 0
                    if turned < tiles:
                        following = min(tiles, turned + own)
                        _turn_tiles(*turn, turned, following)
                        turned = following
                    steps_left = own, left, right, other, ends_here, *fetched, fetch
                    to = found, across, target, row_bytes, origin, table
                    done = _go_on(*steps_left, done, ready, each, to)
        sums = strip - pairs * _BLOCK if sums == ends + _ENDS else ends + _ENDS
    if summed:
        store_sums(block, ROW_BYTES)
        ready = rows
    _reduce_rows(done, ready, found, across, target, row_bytes, origin, table)
