"""Products of encoded tiles by the int8 GEMM of a library, block by block."""

from collections.abc import Sequence

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from .compiled import kernel
from .encoded import DEPTH, GROUP, CpuEncoded
from .int8_gemm import get_gemm
from .layout import read_only
from .requantise import multiplier, requantise, requantise_add
from .threads import run_each, scratch
from .tuning import BLOCK, LARGEST_K, SMALLEST_GEMM


@kernel
def unpack_rows(plane, p, out):  # type: ignore[no-untyped-def]
    """out[row, l] = residues in [0, p) of plane[groups, words, 16, 4]."""
    for g in range(plane.shape[0]):
        for w in range(plane.shape[1]):
            for r in range(GROUP):
                for t in range(DEPTH):
                    v = np.int32(plane[g, w, r, t])
                    out[GROUP * g + r, DEPTH * w + t] = v + (p if v < 0 else 0)


@kernel
def unpack_columns(plane, out):  # type: ignore[no-untyped-def]
    """out[l, row] = plane[groups, words, 16, 4]."""
    for w in range(plane.shape[1]):
        for t in range(DEPTH):
            for g in range(plane.shape[0]):
                for r in range(GROUP):
                    out[DEPTH * w + t, GROUP * g + r] = plane[g, w, r, t]


@kernel
def multiply_rows(a, b, sums):  # type: ignore[no-untyped-def]
    """Write a @ b into sums: of few entries sooner than a library begins."""
    for i in range(a.shape[0]):
        target = sums[i]
        target[:] = 0
        for k in range(a.shape[1]):
            x, source = np.int32(a[i, k]), b[k]
            for j in range(target.size):
                target[j] += x * np.int32(source[j])


def multiply_blocks(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None,
    own: Sequence[int],
) -> None:
    """Multiply the products listed in `own`, each block of a plane on its own."""
    m, words = left.rows, left.planes.shape[2]
    count, columns = residues.shape[1], residues.shape[3]

    def block(piece: tuple[int, int, int, int]) -> None:
        matrix, q, row, column = piece
        product = system.products[q]
        height, width = min(BLOCK, m - row), min(BLOCK, columns - column)
        sums = scratch((-(-height // GROUP) * GROUP, width), np.dtype(np.int32))
        target, old = residues[q, matrix], None
        if before is not None:
            old = before[q, matrix]
        for first in range(0, words, LARGEST_K // DEPTH):
            k = slice(first, first + LARGEST_K // DEPTH)
            x = _cut(left, product.left, matrix, row, len(sums))[:, k]
            y = _cut(right, product.right, matrix, column, width)[:, k]
            length = x.shape[1] * DEPTH
            a, b = (
                np.empty((len(sums), length), np.uint8),
                np.empty((length, width), np.int8),
            )
            unpack_rows(x, product.p, a)
            unpack_columns(y, b)
            gemm = get_gemm() if sums.size * length > SMALLEST_GEMM else multiply_rows
            gemm(a, b, sums)
            where = product.p, multiplier(product.p), target, row, column
            if old is None:
                requantise(sums[:height], *where)
            else:
                requantise_add(sums[:height], old, *where)
            old = read_only(target)

    rows, panels = range(0, m, BLOCK), range(0, columns, BLOCK)
    matrices = range(count)
    run_each(
        block,
        [(b, q, i, j) for b in matrices for j in panels for i in rows for q in own],
    )


def _cut(operand: CpuEncoded, plane: int, matrix: int, row: int, rows: int) -> Array:
    """View the groups of some rows of a plane of a matrix."""
    first = matrix * -(-operand.rows // GROUP) + row // GROUP
    found: Array = operand.planes[operand.order[plane], first : first + rows // GROUP]
    return found
