"""Products of samples of 8 bits: sums modulo 2^32, which int32 has as they wrap.

With ``x = x' + a`` and ``y = y' + b``, of which planes hold x' and y' (a and b are 128
for uint8, and 0), the microkernel takes ``y' + 128`` for y, and so

    sum x y = sum x' (y' + 128) + (b - 128) sum x' + a sum y' + k a b
"""

from functools import lru_cache

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ..buffers import empty
from ..jit import kernel
from ..planes import DEPTH, GROUP, CpuEncoded
from ..threads import num_threads, ranges, run_each
from ..tuning import BLOCK_BYTES, LONGEST_SUM
from .microkernel import BIAS, ROWS, WIDEST, sum_one, sum_rows, sum_three, sum_two

_BYTES = GROUP * DEPTH
_NONE = np.uintp(0)
# Words along k whose products of two uint8 int32 holds: 2^15 columns.
_PANEL = (1 << 15) // DEPTH


@kernel
def _multiply_rows(source, panel, stride, steps, out, old, where, starts, sign):
    """Multiply rows by groups first..last, `steps` words of k; see `_multiply_items`.

    `out` and `old`: addresses of the first row of a matrix, or 0; `where`: the first
    row, how many, these groups, and the bytes of a row of `out`.
    """
    row, rows, first, last, row_bytes = where
    for j in range(first, last, WIDEST):
        right = panel + j * stride
        for i in range(row, row + rows, ROWS):
            left = source + (i // GROUP * stride + i % GROUP * DEPTH)
            place = i * row_bytes + 4 * j * GROUP
            origin, count = old + place if old != 0 else 0, min(ROWS, row + rows - i)
            start = starts + 4 * (i - row)
            given = left, right, stride, steps, start, out + place, row_bytes, count
            if last - j >= 3:
                sum_three(*given, origin, sign)
            elif last - j == 2:
                sum_two(*given, origin, sign)
            else:
                sum_one(*given, origin, sign)


@kernel
def _multiply_items(
    lo, hi, x, y, span, out, before, add, jobs, signs, offsets, k, block, longest, side
):
    """Multiply items lo..hi: blocks of rows of each job of each matrix, in this order.

    x, y (planes, groups of all matrices, words, 16, 4), of which the words of a `span`,
    k columns, are multiplied; out (products, matrices, m, n or more) int32, and before,
    which may be out itself.
    """
    matrices, m, width = out.shape[1:]
    blocks, (a, b) = -(-m // block), offsets
    groups, (begin, end) = y.shape[1] // matrices, span
    stride, of_x = y.shape[2] * _BYTES, x.shape[1] // matrices
    starts, sums = np.empty(block + GROUP, np.uint32), np.empty(GROUP, np.uint32)
    for item in range(lo, hi):
        matrix, item = divmod(item, len(jobs) * blocks)
        job = item // blocks
        left, right, q = jobs[job]
        row = item % blocks * block
        rows = min(block, m - row)
        first, last = 0, groups
        if side < 0:
            last = min(groups, -(-(row + rows) // GROUP))
        elif side > 0:
            first = row // GROUP
        where, result = (row, rows, first, last, 4 * width), out[q, matrix]
        base = y[right, matrix * groups].ctypes.data
        sign = signs[job : job + 1].ctypes.data
        for k_lo in range(begin, end, longest):
            steps = min(end - k_lo, longest)
            old = result.ctypes.data if k_lo > begin else _NONE
            if add and k_lo == begin:
                old = before[q, matrix].ctypes.data
            source = x[left, matrix * of_x].ctypes.data + _BYTES * k_lo
            for i in range(0, rows, GROUP):
                group = source + (row + i) // GROUP * stride
                own = starts[i : i + GROUP]
                sum_rows(group, steps, np.int32(b - 128), own.ctypes.data)
            if a != 0 and k_lo == begin:
                starts += np.uint32(k * a * b)
            panel, room = base + _BYTES * k_lo, starts.ctypes.data
            _multiply_rows(
                source, panel, stride, steps, result.ctypes.data, old, where, room, sign
            )
        if a == 0:
            continue
        for j in range(first, last):
            first_word = base + j * stride + _BYTES * begin
            sum_rows(first_word, end - begin, np.int32(a), sums.ctypes.data)
            for i in range(row, row + rows):
                for c in range(GROUP):
                    own = np.int32(sums[c] ^ np.uint32(BIAS)) * signs[job]
                    result[i, j * GROUP + c] += np.int32(own)


def multiply_samples(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    sums: Array,
    before: Array | None,
    side: int,
) -> None:
    """Multiply a triangle of all products, and add sums of their shape.

    `sums`: (products, matrices, m, n padded to whole groups) int32, or int64, to which
    panels along k are added; `side`: -1 for the lower triangle, 1 for the upper, 0 for
    both.
    """
    words = left.planes.shape[2]
    if sums.itemsize == 4:
        _multiply_span(left, right, system, (0, words), sums, before, side)
        return
    if before is None:
        sums[...] = 0
    elif before.ctypes.data != sums.ctypes.data:
        sums[...] = before
    panel = empty(sums.shape, np.int32)
    for start in range(0, words, _PANEL):
        span = start, min(words, start + _PANEL)
        _multiply_span(left, right, system, span, panel, None, side)
        sums += panel


def _multiply_span(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    span: tuple[int, int],
    sums: Array,
    before: Array | None,
    side: int,
) -> None:
    x, y, offsets = left.planes, right.planes, (left.offset, right.offset)
    sizes = sums.shape[1:], span[1] - span[0], side != 0
    plan = _plan(system, left.order, right.order, *sizes, num_threads())
    jobs, signs, block, longest, pieces = plan
    old, add = (sums[:0], False) if before is None else (before, True)
    k = min(left.k, DEPTH * span[1]) - DEPTH * span[0]

    def multiply(piece: tuple[int, int]) -> None:
        given = x, y, span, sums, old, add, jobs, signs, offsets, k
        _multiply_items(*piece, *given, block, longest, side)

    run_each(multiply, pieces)


@lru_cache(maxsize=1024)
def _plan(
    system: ResidueSystem,
    left: tuple[int, ...],
    right: tuple[int, ...],
    shape: tuple[int, int, int],
    words: int,
    triangle: bool,
    threads: int,
) -> tuple[Array, Array, int, int, list[tuple[int, int]]]:
    """List where the planes of each product stand, and their signs; share the blocks.

    Blocks of rows are as high as the L2 has room for, and so many that all threads have
    some: each product of few rows would be one.
    """
    pairs = [(left[t.left], right[t.right]) for t in system.products]
    jobs = [(max(i, ~i), max(j, ~j), q) for q, (i, j) in enumerate(pairs)]
    signs = [1 if (i < 0) == (j < 0) else -1 for i, j in pairs]
    count, m, n = shape
    longest = min(words, LONGEST_SUM // DEPTH)
    block = max(GROUP, BLOCK_BYTES // (longest * DEPTH) // GROUP * GROUP)
    share = -(-count * len(jobs) * m // (4 * threads))
    share = min(share, m // 8) if triangle else share
    block = max(GROUP, min(block, -(-share // GROUP) * GROUP))
    each = min(block, m) * n * words * DEPTH // 400
    items = count * len(jobs) * -(-m // block)
    pieces = ranges(items, each=each, threads=threads)
    return np.array(jobs), np.array(signs, np.int32), block, longest, pieces
