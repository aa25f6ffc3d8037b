"""Products of encoded tiles by BLAS, as float32: blocks of several planes.

Sums of 1024 products of symmetric residues are exact in float32. A loop multiplies
small blocks in less time than BLAS takes to begin.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ....errors import KernelError
from ....moduli import ResidueSystem
from ....typing import Array
from ..compiled import inner, kernel
from ..encoded import DEPTH, GROUP, CpuEncoded
from ..layout import read_only
from ..threads import ranges, run_each, scratch
from ..tuning import BLOCK, SMALLEST_GEMM
from .reduction import multiplier, reduce_sum

_SINGLE = np.dtype(np.float32)
# Columns of k between two reductions modulo p: |sum| <= 1024 * 128^2 = 2^24.
LONGEST = 1024
# Bytes of several products at most, operands and sums: an eighth of the sums of a large
# block, which plans of small tiles do not notice.
_BATCH_BYTES = BLOCK**2 // 2


def multiply_float32(a: Array, b: Array, sums: Array) -> None:
    """Write ``a @ b`` of batches of integers into sums."""
    np.matmul(a, b, out=sums)


@cache
def check_float32() -> None:
    """Multiply extreme values, and compare with the exact sums.

    Odd sizes reach the kernels' remainder loops.
    """
    m, n, k = 37, 67, LONGEST
    for value in (127, -128):
        a, b = np.full((m, k), -128, _SINGLE), np.full((k, n), value, _SINGLE)
        a[1::2], b[:, 1::3] = -127, -127
        sums = np.empty((m, n), _SINGLE)
        with single_threaded():
            multiply_float32(a, b, sums)
        if not np.array_equal(sums, a.astype(np.int64) @ b.astype(np.int64)):
            raise KernelError(
                "float32 BLAS failed its check of small integers",
                "Reinstall numpy",
                "no-exact-product",
            )


# --- BLAS on one thread, called by each of the threads of a product -------------------

_one = threading.Lock()


@cache
def _libraries() -> Any:
    """Find the libraries, which takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def single_threaded() -> Iterator[None]:
    """Have the BLAS take no threads of its own, in all of the process.

    Beside ours they made a product of 1024 take twice as long (2 cores). Whoever begins
    first takes them away, and gives them back: no other thread could.
    """
    if not _one.acquire(blocking=False):
        yield
        return
    # By threadpoolctl's own context it would take twice as long.
    found = [(library, library.num_threads) for library in _libraries()]
    try:
        for library, _ in found:
            library.set_num_threads(1)
        yield
    finally:
        for library, threads in found:
            library.set_num_threads(threads)
        _one.release()


# --- blocks ---------------------------------------------------------------------------


@inner
def _unpack_rows(plane, out):  # type: ignore[no-untyped-def]
    """out[row, l] = plane[groups, words, 16, 4]."""
    for g in range(plane.shape[0]):
        for w in range(plane.shape[1]):
            for r in range(GROUP):
                for t in range(DEPTH):
                    out[GROUP * g + r, DEPTH * w + t] = plane[g, w, r, t]


@inner
def _unpack_columns(plane, out):  # type: ignore[no-untyped-def]
    """out[l, row] = plane[groups, words, 16, 4]."""
    for w in range(plane.shape[1]):
        for t in range(DEPTH):
            for g in range(plane.shape[0]):
                for r in range(GROUP):
                    out[DEPTH * w + t, GROUP * g + r] = plane[g, w, r, t]


@kernel
def _unpack(x, y, jobs, matrix, row, column, first, a, b):  # type: ignore[no-untyped-def]
    """Unpack the blocks of both sides that jobs multiply, from word `first` on.

    x, y (planes, matrices, groups, words, 16, 4); row, column: groups that begin them.
    """
    last = first + a.shape[2] // DEPTH
    rows, columns = a.shape[1] // GROUP, b.shape[2] // GROUP
    for i in range(len(jobs)):
        left, right = jobs[i, 0], jobs[i, 1]
        _unpack_rows(x[left, matrix, row : row + rows, first:last], a[i])
        _unpack_columns(y[right, matrix, column : column + columns, first:last], b[i])


@kernel
def _multiply_rows(a, b, sums):  # type: ignore[no-untyped-def]
    """Write ``a @ b`` of batches of integers into sums."""
    for batch in range(len(a)):
        for i in range(a.shape[1]):
            target = sums[batch, i]
            target[:] = 0
            for k in range(a.shape[2]):
                x, source = a[batch, i, k], b[batch, k]
                for j in range(target.size):
                    target[j] += x * source[j]


@kernel
def _requantise(sums, jobs, old, add, residues, matrix, rows, row, column):  # type: ignore[no-untyped-def]
    """Reduce the first rows of the sums of jobs, and add old residues if asked to.

    old, residues (products, matrices, m, n or more): `old` may be `residues` itself.
    """
    line = np.empty(sums.shape[2], np.int32)
    for i in range(len(jobs)):
        q, p, m = jobs[i, 2], jobs[i, 3], jobs[i, 4]
        for r in range(rows):
            source = sums[i, r]
            # A slice of a row keeps Numba's knowledge that it is contiguous.
            target = residues[q, matrix, row + r, column : column + source.size]
            before = old[q, matrix, row + r, column : column + source.size]
            # First, since LLVM knows that these do not overlap.
            for j in range(source.size):
                line[j] = np.int32(source[j]) + (before[j] if add else 0)
            for j in range(source.size):
                target[j] = reduce_sum(np.int64(line[j]), p, m)


@cache
def _list_jobs(
    system: ResidueSystem,
    left: tuple[int, ...],
    right: tuple[int, ...],
    own: tuple[int, ...],
) -> Array:
    """Tabulate (place of X, place of Y, product, p, its multiplier) of products."""
    given = [(q, system.products[q]) for q in own]
    return np.array(
        [(left[t.left], right[t.right], q, t.p, multiplier(t.p)) for q, t in given]
    )


def multiply_blocks(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None,
    own: Sequence[int],
) -> None:
    """Multiply the products listed in `own`, small blocks of several at a time."""
    m, words = left.rows, left.planes.shape[2]
    count, columns = residues.shape[1], residues.shape[3]
    jobs = _list_jobs(system, left.order, right.order, tuple(own))
    x, y = (
        t.planes.reshape(len(t.planes), count, -1, *t.planes.shape[2:])
        for t in (left, right)
    )
    # A call of BLAS costs as much as a product of some 90 rows and columns.
    sides, length = (min(BLOCK, m), min(BLOCK, columns)), min(LONGEST, words * DEPTH)
    taken = (prod(sides) + sum(sides) * length) * _SINGLE.itemsize
    batch = max(1, _BATCH_BYTES // taken)
    most = min(batch, len(jobs)) * (sides[0] + GROUP) * sides[1] * length

    def block(piece: tuple[int, int, int, int, int]) -> None:
        matrix, lo, hi, row, column = piece
        own = jobs[lo:hi]
        height, width = min(BLOCK, m - row), min(BLOCK, columns - column)
        rows = -(-height // GROUP) * GROUP
        small = len(own) * rows * width * length <= SMALLEST_GEMM
        multiply = _multiply_rows if small else multiply_float32
        shape = len(own), rows, width
        sums = scratch(prod(shape), _SINGLE)[: prod(shape)].reshape(shape)
        old, add = (residues, False) if before is None else (before, True)
        for first in range(0, words, LONGEST // DEPTH):
            depth = min(LONGEST, (words - first) * DEPTH)
            a = np.empty((len(own), rows, depth), _SINGLE)
            b = np.empty((len(own), depth, width), _SINGLE)
            _unpack(x, y, own, matrix, row // GROUP, column // GROUP, first, a, b)
            multiply(a, b, sums)
            place = residues, matrix, height, row, column
            _requantise(sums, own, read_only(old), add, *place)
            old, add = residues, True

    each = m * columns * words * DEPTH // 10
    pieces = [
        (matrix, first, min(first + batch, hi), row, column)
        for matrix in range(count)
        for column in range(0, columns, BLOCK)
        for row in range(0, m, BLOCK)
        for lo, hi in ranges(len(jobs), each=each)
        for first in range(lo, hi, batch)
    ]
    with nullcontext() if most <= SMALLEST_GEMM else single_threaded():
        run_each(block, pieces, count * len(jobs) * each)
