"""Products of encoded tiles by the microkernel: reduced where they are summed.

Sums of samples of 8 bits stay as int32 has them as they wrap, modulo 2^32. With
``x = x' + a`` and ``y = y' + b``, of which planes hold x' and y' (a and b are 128 for
uint8, and 0), the microkernel takes ``y' + c`` for y (c is its offset), and so

    sum x y = sum x' (y' + c) + (b - c) sum x' + a sum y' + k a b
"""

from functools import cache, lru_cache

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ..jit import inner, kernel
from ..layout import read_only
from ..planes import DEPTH, GROUP, CpuEncoded
from ..threads import num_threads, ranges, run_each
from ..tuning import BLOCK_BYTES, LONGEST_SUM, TILES_BYTES
from .amx import PAIR, multiply_strip, room_bytes
from .amx_steps import configure_tiles, release_tiles
from .microkernel import (
    BIAS,
    ROWS,
    WIDEST,
    find_offset,
    multiply_one,
    multiply_three,
    multiply_two,
    sum_rows,
)
from .reduction import reduction_table

_BYTES = GROUP * DEPTH
# No address, of their type: Numba makes floats of what is either that or an integer.
_NONE = np.uintp(0)
Places = tuple[int, ...]
_NOTHING = read_only(np.empty((0, 0, 0, 0), np.int8))  # what is added where nothing is


@cache
def product_table(system: ResidueSystem) -> Array:
    """Tabulate what each product is reduced by."""
    return reduction_table([product.p for product in system.products])


@kernel
def _multiply_rows(
    x, x_stride, y, y_stride, steps, out, old, where, entry, room, tiles, samples
):
    """Multiply rows of a plane by groups first..last of another, `steps` words of k.

    x and y are the addresses of their first words, with a stride from group to group;
    `old` that of what is added, with the strides of `out`, or 0; `where`: the first
    row, how many, and these groups.
    """
    row, rows, first, last = where
    if tiles is not None:
        multiply_strip(x, x_stride, y, y_stride, steps, out, old, *where, entry, room)
        return
    row_bytes, out_base, starts = out.strides[0], out.ctypes.data, room.ctypes.data
    # y is taken too large by an offset, which adds so many times the sum of a row of x.
    factor = (0 if samples is None else samples[3]) - find_offset()
    for i in range(0, rows, GROUP):
        group = x + (row + i) // GROUP * x_stride
        sum_rows(group, steps, factor, starts + 4 * i)
    table, zero = entry.ctypes.data, out.dtype.type(0)
    for j in range(first, last, WIDEST):
        panel = y + j * y_stride
        for i in range(row, row + rows, ROWS):
            group = x + (i // GROUP * x_stride + i % GROUP * DEPTH)
            start = starts + 4 * (i - row)
            place = i * row_bytes + j * GROUP * out.itemsize
            target, origin = out_base + place, old + place if old != 0 else 0
            count = min(ROWS, row + rows - i)
            given = group, panel, y_stride, steps, start, target, row_bytes, count
            if last - j >= 3:
                multiply_three(zero, *given, origin, table)
            elif last - j == 2:
                multiply_two(zero, *given, origin, table)
            else:
                multiply_one(zero, *given, origin, table)


@inner
def _add_offsets(y, y_stride, steps, out, where, sign, samples):
    """Add ``a sum y' + k a b`` of all steps along k to rows and groups of `out`."""
    (row, rows, first, last), (a, b, k) = where, samples[2:]
    sums = np.empty(GROUP, np.uint32)
    for j in range(first, last):
        sum_rows(y + j * y_stride, steps, np.int32(a), sums.ctypes.data)
        for i in range(row, row + rows):
            for c in range(GROUP):
                own = np.uint32((sums[c] ^ np.uint32(BIAS)) + np.uint32(k * a * b))
                out[i, j * GROUP + c] += np.int32(np.int32(own) * sign)


@inner
def _begin(tiles, rows, steps):
    """Set up the unit that multiplies, and return the room that blocks of rows take."""
    if tiles is None:
        return np.empty(-(-rows // GROUP) * GROUP * 4, np.uint8)
    configure_tiles(tiles.ctypes.data)
    return np.empty(room_bytes(rows, steps), np.uint8)


@kernel
def _multiply_items(
    lo, hi, x, y, out, before, add, jobs, table, block, longest, tiles, samples, side
):
    """Multiply items lo..hi: blocks of rows of each place of each matrix, in order.

    x, y (planes, groups of all matrices, words, 16, 4); out (places, matrices, m, n or
    more), and before, which may be out itself; jobs (places, products that are added
    up, 4). `tiles`: AMX's configuration, or None: then the microkernel multiplies.
    `samples`: None; or the first word and the last, what those of x and of y exceed
    their planes by, and the columns k of these.
    """
    matrices, m = out.shape[1], out.shape[2]
    blocks, begin, end = -(-m // block), 0, y.shape[2]
    if samples is not None:
        begin, end = samples[0], samples[1]
    groups, stride = y.shape[1] // matrices, y.shape[2] * _BYTES
    of_x = x.shape[1] // matrices
    room = _begin(tiles, min(block, m), min(longest, end - begin))
    for item in range(lo, hi):
        matrix, item = divmod(item, len(jobs) * blocks)
        row = item % blocks * block
        rows = min(block, m - row)
        first, last = 0, groups
        if side < 0:
            last = min(groups, -(-(row + rows) // GROUP))
        elif side > 0:
            first = row // GROUP
        for i in range(jobs.shape[1]):
            left, right, q, entry = jobs[item // blocks, i]
            where, result = (row, rows, first, last), out[q, matrix]
            for k_lo in range(begin, end, longest):
                k_hi = min(end, k_lo + longest)
                old = result.ctypes.data if i > 0 or k_lo > begin else _NONE
                if add and i == 0 and k_lo == begin:
                    old = before[q, matrix].ctypes.data
                source = x[left, matrix * of_x].ctypes.data + _BYTES * k_lo
                panel = y[right, matrix * groups].ctypes.data + _BYTES * k_lo
                given = source, stride, panel, stride, k_hi - k_lo, result, old
                _multiply_rows(*given, where, table[entry], room, tiles, samples)
            if samples is not None and samples[2] != 0:
                panel = y[right, matrix * groups].ctypes.data + _BYTES * begin
                of_y = panel, stride, end - begin
                _add_offsets(*of_y, result, where, table[entry, 0], samples)
    if tiles is not None:
        release_tiles()


@kernel
def multiply_quarter(
    x, x_first, y, y_first, steps, out, rows, groups, block, longest, entry, tiles
):
    """out[rows, 16 groups] = a part of a plane x by a part of a plane y.

    x and y are (groups, bytes of a group); `first`: the group and the byte of a part.
    """
    x_base = x.ctypes.data + x_first[0] * x.shape[1] + x_first[1]
    y_base = y.ctypes.data + y_first[0] * y.shape[1] + y_first[1]
    room = _begin(tiles, min(block, rows), min(longest, steps))
    for row in range(0, rows, block):
        for lo in range(0, steps, longest):
            old, count = out.ctypes.data if lo > 0 else _NONE, min(longest, steps - lo)
            source, panel = x_base + _BYTES * lo, y_base + _BYTES * lo
            given = source, x.shape[1], panel, y.shape[1], count, out, old
            where = row, min(block, rows - row), 0, groups
            _multiply_rows(*given, where, entry, room, tiles, None)
    if tiles is not None:
        release_tiles()


def cut_rows(words: int, has_tiles: bool, triangle: bool = False) -> tuple[int, int]:
    """Rows of a block, and words along k between two reductions."""
    nbytes, step = (TILES_BYTES, PAIR) if has_tiles else (BLOCK_BYTES, GROUP)
    if triangle and has_tiles:
        nbytes //= 2  # all columns are multiplied that any row of a block has
    longest = min(words, LONGEST_SUM // DEPTH)
    return max(step, nbytes // (longest * DEPTH) // step * step), longest


def multiply_packed(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None,
    own: Places,
    tiles: Array | None,
    side: int,
    span: tuple[int, int] | None = None,
) -> None:
    """Multiply a triangle of the products `own`, and add residues of their shape.

    `residues`: (products, matrices, m, n padded to whole groups); `tiles`: see
    `_multiply_items`; `side`: -1 for the lower triangle, 1 for the upper, 0 for both;
    `span`: the words of samples that are multiplied.
    """
    x, y = left.planes, right.planes
    begin, end = span or (0, x.shape[2])
    sizes = residues.shape[1:], end - begin, tiles is not None, side != 0
    plan, pieces = _plan(system, left.order, right.order, own, *sizes, num_threads())
    old, add = (_NOTHING, False) if before is None else (before, True)
    samples = None
    if span is not None:
        k = min(left.k, DEPTH * end) - DEPTH * begin
        samples = begin, end, left.offset, right.offset, k
        old = residues if before is None else before

    def multiply(piece: tuple[int, int]) -> None:
        given = x, y, residues, old, add, *plan, tiles, samples
        _multiply_items(*piece, *given, side)

    run_each(multiply, pieces)


@lru_cache(maxsize=1024)
def _plan(
    system: ResidueSystem,
    left: Places,
    right: Places,
    own: Places,
    shape: tuple[int, int, int],
    words: int,
    has_tiles: bool,
    triangle: bool,
    threads: int,
) -> tuple[tuple[Array, Array, int, int], list[tuple[int, int]]]:
    """Tabulate the products `own` and what they are reduced by, and share their blocks.

    A job: where a product's planes stand, its residues, and what reduces it. `shape`:
    (matrices, m, n). Of samples planes may be read with the other sign, which the sums
    are multiplied by.
    """
    given = [(q, system.products[q]) for q in own]
    places = [(left[t.left], right[t.right], system.places[q], q) for q, t in given]
    listed = [(max(i, ~i), max(j, ~j), *more) for i, j, *more in places]
    jobs = np.array(listed).reshape(len({q for _, _, q, _ in places}), -1, 4)
    (count, m, n), (block, longest) = shape, cut_rows(words, has_tiles, triangle)
    if system.wraps:
        signs = [[1 if i ^ j >= 0 else -1] for i, j, *_ in places]
        table = np.array(signs, np.int32)
        # So many that all threads have some: each product of few rows would be one.
        share = -(-count * len(jobs) * m // (4 * threads))
        share = min(share, m // 8) if triangle else share
        block = max(GROUP, min(block, -(-share // GROUP) * GROUP))
    else:
        table = product_table(system)
    # 64 multiplications a clock and more.
    each = min(block, m) * n * words * DEPTH // 400
    blocks = count * len(jobs) * -(-m // block)
    return (jobs, table, block, longest), ranges(blocks, each=each, threads=threads)
