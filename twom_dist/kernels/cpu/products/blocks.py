"""Products of encoded tiles by the int8 GEMM of a library: blocks of several planes."""

from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ..compiled import inner, kernel
from ..encoded import DEPTH, GROUP, CpuEncoded
from ..layout import read_only
from ..threads import ranges, run_each, scratch
from ..tuning import BLOCK, LARGEST_K, SMALLEST_GEMM
from .int8_gemm import BYTES, Gemm, get_gemm
from .requantise import multiplier, requantise, requantise_add

# Bytes of several products at most, operands and sums: an eighth of the sums of a large
# block, which plans of small tiles do not notice.
_BATCH_BYTES = BLOCK**2 // 2


@inner
def _unpack_rows(plane, p, out):  # type: ignore[no-untyped-def]
    """out[row, l] = plane[groups, words, 16, 4], or p more where that is negative."""
    for g in range(plane.shape[0]):
        for w in range(plane.shape[1]):
            for r in range(GROUP):
                for t in range(DEPTH):
                    v = np.int32(plane[g, w, r, t])
                    out[GROUP * g + r, DEPTH * w + t] = v + (p if v < 0 else 0)


@inner
def _unpack_columns(plane, out):  # type: ignore[no-untyped-def]
    """out[l, row] = plane[groups, words, 16, 4]."""
    for w in range(plane.shape[1]):
        for t in range(DEPTH):
            for g in range(plane.shape[0]):
                for r in range(GROUP):
                    out[DEPTH * w + t, GROUP * g + r] = plane[g, w, r, t]


@kernel
def _unpack(x, y, jobs, unsigned, matrix, row, column, first, a, b):  # type: ignore[no-untyped-def]
    """Unpack the blocks of both sides that jobs multiply, from word `first` on.

    x, y (planes, matrices, groups, words, 16, 4); row, column: groups that begin them.
    `unsigned`: whether residues of the left side are from 0 on, not symmetric.
    """
    last = first + a.shape[2] // DEPTH
    for i in range(len(jobs)):
        left, right, _, p, _ = jobs[i]
        rows, columns = a.shape[1] // GROUP, b.shape[2] // GROUP
        shift = p if unsigned else 0
        _unpack_rows(x[left, matrix, row : row + rows, first:last], shift, a[i])
        _unpack_columns(y[right, matrix, column : column + columns, first:last], b[i])


@kernel
def multiply_rows(a, b, sums):  # type: ignore[no-untyped-def]
    """Write a @ b into sums, of batches: few entries sooner than a library begins."""
    for batch in range(len(a)):
        for i in range(a.shape[1]):
            target = sums[batch, i]
            target[:] = 0
            for k in range(a.shape[2]):
                x, source = np.int32(a[batch, i, k]), b[batch, k]
                for j in range(target.size):
                    target[j] += x * np.int32(source[j])


_LOOPS = Gemm("loops", *BYTES, LARGEST_K, multiply_rows)


@kernel
def _reduce(sums, jobs, old, add, residues, matrix, rows, row, column):  # type: ignore[no-untyped-def]
    """Reduce the first rows of the sums of jobs, and add old residues if asked to.

    old, residues (products, matrices, m, n or more): `old` may be `residues` itself.
    """
    for i in range(len(jobs)):
        _, _, q, p, m = jobs[i]
        own = sums[i, :rows]
        if add:
            requantise_add(own, old[q, matrix], p, m, residues[q, matrix], row, column)
        else:
            requantise(own, p, m, residues[q, matrix], row, column)


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
    # A call of a library costs as much as a product of some 90 rows and columns.
    library, sides = get_gemm(), (min(BLOCK, m), min(BLOCK, columns))
    length = min(library.longest, words * DEPTH)
    taken = prod(sides) * library.sums.itemsize
    taken += sum(sides) * length * library.right.itemsize
    batch = max(1, _BATCH_BYTES // taken)
    most = min(batch, len(jobs)) * (sides[0] + GROUP) * sides[1] * length

    def block(piece: tuple[int, int, int, int, int]) -> None:
        matrix, lo, hi, row, column = piece
        own = jobs[lo:hi]
        height, width = min(BLOCK, m - row), min(BLOCK, columns - column)
        rows = -(-height // GROUP) * GROUP
        small = len(own) * rows * width * length <= SMALLEST_GEMM
        gemm = _LOOPS if small else library
        shape = len(own), rows, width
        sums = scratch(prod(shape), gemm.sums)[: prod(shape)].reshape(shape)
        old, add = (residues, False) if before is None else (before, True)
        for first in range(0, words, gemm.longest // DEPTH):
            depth = min(gemm.longest, (words - first) * DEPTH)
            a = np.empty((len(own), rows, depth), gemm.left)
            b = np.empty((len(own), depth, width), gemm.right)
            where = matrix, row // GROUP, column // GROUP, first
            _unpack(x, y, own, gemm.unsigned, *where, a, b)
            gemm.multiply(a, b, sums)
            place = residues, matrix, height, row, column
            _reduce(sums, own, read_only(old), add, *place)
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
    with (_LOOPS if most <= SMALLEST_GEMM else library).own_threads():
        run_each(block, pieces, count * len(jobs) * each)
