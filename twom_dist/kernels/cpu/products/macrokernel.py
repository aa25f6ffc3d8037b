"""Products of encoded tiles by the microkernel: reduced where they are summed."""

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
    ROWS,
    WIDEST,
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
    x, x_stride, y, y_stride, steps, out, old, where, entry, room, tiles
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
    # y is taken 128 too large, which adds 128 times the sum of a row of x.
    for i in range(0, rows, GROUP):
        group = x + (row + i) // GROUP * x_stride
        sum_rows(group, steps, np.int32(-128), starts + 4 * i)
    table = entry.ctypes.data
    for j in range(first, last, WIDEST):
        panel = y + j * y_stride
        for i in range(row, row + rows, ROWS):
            group = x + (i // GROUP * x_stride + i % GROUP * DEPTH)
            start = starts + 4 * (i - row)
            place = i * row_bytes + j * GROUP
            target, origin = out_base + place, old + place if old != 0 else 0
            count = min(ROWS, row + rows - i)
            given = group, panel, y_stride, steps, start, target, row_bytes, count
            if last - j >= 3:
                multiply_three(*given, origin, table)
            elif last - j == 2:
                multiply_two(*given, origin, table)
            else:
                multiply_one(*given, origin, table)


@inner
def _begin(tiles, rows, steps):
    """Set up the unit that multiplies, and return the room that blocks of rows take."""
    if tiles is None:
        return np.empty(-(-rows // GROUP) * GROUP * 4, np.uint8)
    configure_tiles(tiles.ctypes.data)
    return np.empty(room_bytes(rows, steps), np.uint8)


@kernel
def _multiply_items(
    lo, hi, x, y, out, before, add, jobs, table, block, longest, tiles, side
):
    """Multiply items lo..hi: blocks of rows of each job of each matrix, in this order.

    x, y (planes, groups of all matrices, words, 16, 4); out (products, matrices, m, n
    or more), and before, which may be out itself. `tiles`: AMX's configuration, or
    None: then the microkernel multiplies.
    """
    matrices, m = out.shape[1], out.shape[2]
    blocks = -(-m // block)
    groups, words = y.shape[1] // matrices, y.shape[2]
    stride, of_x = words * _BYTES, x.shape[1] // matrices
    room = _begin(tiles, min(block, m), min(longest, words))
    for item in range(lo, hi):
        matrix, item = divmod(item, len(jobs) * blocks)
        left, right, q = jobs[item // blocks]
        row = item % blocks * block
        rows = min(block, m - row)
        first, last = 0, groups
        if side < 0:
            last = min(groups, -(-(row + rows) // GROUP))
        elif side > 0:
            first = row // GROUP
        for k_lo in range(0, words, longest):
            k_hi = min(words, k_lo + longest)
            old = out[q, matrix].ctypes.data if k_lo > 0 else _NONE
            if add and k_lo == 0:
                old = before[q, matrix].ctypes.data
            source = x[left, matrix * of_x].ctypes.data + _BYTES * k_lo
            panel = y[right, matrix * groups].ctypes.data + _BYTES * k_lo
            given = source, stride, panel, stride, k_hi - k_lo, out[q, matrix], old
            _multiply_rows(*given, (row, rows, first, last), table[q], room, tiles)
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
            _multiply_rows(*given, where, entry, room, tiles)
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
) -> None:
    """Multiply a triangle of the products `own`, and add residues of their shape.

    `residues`: (products, matrices, m, n padded to whole groups); `tiles`: see
    `_multiply_items`; `side`: -1 for the lower triangle, 1 for the upper, 0 for both.
    """
    x, y = left.planes, right.planes
    sizes = residues.shape[1:], x.shape[2], tiles is not None, side != 0
    plan, pieces = _plan(system, left.order, right.order, own, *sizes, num_threads())
    old, add = (_NOTHING, False) if before is None else (before, True)

    def multiply(piece: tuple[int, int]) -> None:
        _multiply_items(*piece, x, y, residues, old, add, *plan, tiles, side)

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

    A job: where a product's planes stand, and its residues. `shape`: (matrices, m, n).
    """
    given = [(q, system.products[q]) for q in own]
    jobs = np.array([(left[t.left], right[t.right], q) for q, t in given])
    (count, m, n), (block, longest) = shape, cut_rows(words, has_tiles, triangle)
    # 64 multiplications a clock and more.
    each = min(block, m) * n * words * DEPTH // 400
    blocks = count * len(jobs) * -(-m // block)
    plan = jobs, product_table(system), block, longest
    return plan, ranges(blocks, each=each, threads=threads)
