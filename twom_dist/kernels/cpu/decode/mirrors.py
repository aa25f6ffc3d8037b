"""Products of ``X X^H`` that follow from others: transposed, and combined.

In squares of 64 x 64, whose lines are read once and written once, each 16 rows of them
in registers.
"""

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ..compiled import kernel
from ..products.requantise import SHIFT, multiplier
from ..products.turning import SIDE, turn_four, turn_one
from ..threads import run_each

# Side of the squares that are turned: whole lines of the cache are read and written.
_TILE = 64


@kernel
def transpose(source, target, side):  # type: ignore[no-untyped-def]
    """target[m, j, i] = source[m, i, j] of int8 residues; rows are padded to 16.

    `side`: below 0 the lower triangle of the target alone, above 0 the upper one. What
    lies beyond it, or in the padding, is anything.
    """
    matrices, n, width = source.shape
    turned = np.zeros((_TILE, _TILE // 8), np.uint64)
    words, out = target.view(np.uint64), turned.ctypes.data
    for matrix in range(matrices):
        for i in range(0, n, _TILE):
            down = min(_TILE, width - i)
            first, last = i if side < 0 else 0, min(n, i + _TILE) if side > 0 else n
            for j in range(first, last, _TILE):
                across = min(_TILE, width - j)
                for r in range(0, down, SIDE):
                    row = source.ctypes.data + (matrix * n + i + r) * width + j
                    rows = min(SIDE, n - i - r)
                    if across == _TILE:
                        turn_four(row, width, rows, out + r, _TILE)
                    else:
                        for c in range(0, across, SIDE):
                            turn_one(row + c, width, rows, out + c * _TILE + r, _TILE)
                for c in range(min(_TILE, n - j)):
                    own, given = words[matrix, j + c, i // 8 :], turned[c]
                    # By one instruction where the number is known.
                    if down == _TILE:
                        for w in range(_TILE // 8):
                            own[w] = given[w]
                    else:
                        for w in range(down // 8):
                            own[w] = given[w]


@kernel
def combine(target, straight, source, transposed, weight, other, p, m, shift):  # type: ignore[no-untyped-def]
    """target = straight source + transposed target + weight other, modulo p."""
    for i in range(target.shape[0]):
        t, r, s = target[i], source[i], other[i]
        for j in range(t.size):
            v = np.int64(straight * r[j] + transposed * t[j] + weight * s[j])
            t[j] = np.int8(v - ((v * m + (1 << (shift - 1))) >> shift) * p)


def fill_mirrors(system: ResidueSystem, residues: Array, side: int) -> None:
    """Derive a triangle of the products that have a mirror, or more.

    `residues`: (products, matrices, n, n padded to whole groups).
    """
    rows = residues.reshape(len(residues), -1, residues.shape[3])

    def fill(q: int) -> None:
        product, mirror = system.products[q], system.products[q].mirror
        if mirror is None:
            return
        transpose(residues[mirror.source], residues[q], side)
        if (mirror.straight, mirror.transposed, mirror.other) != (0, 1, None):
            source = rows[mirror.source]
            other = source if mirror.other is None else rows[mirror.other]
            combine(
                rows[q],
                mirror.straight,
                source,
                mirror.transposed,
                mirror.other_weight,
                other,
                product.p,
                multiplier(product.p),
                SHIFT,
            )

    # A product takes a nanosecond for some eight residues.
    run_each(fill, range(len(residues)), residues.size // 8)
