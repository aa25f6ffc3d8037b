"""Products of ``X X^H`` that follow from others: transposed, and combined.

Squares of 64 x 64 are read and written once, with 16 rows at a time in registers.
"""

from functools import cache

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ..jit import inner, kernel
from ..layout import read_only
from ..products.reduction import multiplier, reduce_sum
from ..products.transpose import SIDE, turn_four, turn_one
from ..threads import run_each

_TILE = 64  # side of the squares that are turned: whole lines of the cache


@inner
def _turn(source, target, side, lo, hi, turned):
    """Write rows lo..hi of target[j, i] = source[i, j]; rows are padded to 16.

    `side`: below 0 the lower triangle of the target alone, above 0 the upper one. What
    lies beyond it, or in the padding, is anything.
    """
    n, width = source.shape
    words, out = target.view(np.uint64), turned.ctypes.data
    for i in range(0, n, _TILE):
        down = min(_TILE, width - i)
        first, last = i if side < 0 else 0, min(n, i + _TILE) if side > 0 else n
        for j in range(max(first, lo // _TILE * _TILE), min(last, hi), _TILE):
            across = min(_TILE, width - j)
            for r in range(0, down, SIDE):
                row = source.ctypes.data + (i + r) * width + j
                rows = min(SIDE, n - i - r)
                if across == _TILE:
                    turn_four(row, width, rows, out + r, _TILE)
                else:
                    for c in range(0, across, SIDE):
                        turn_one(row + c, width, rows, out + c * _TILE + r, _TILE)
            for c in range(max(0, lo - j), min(_TILE, hi - j)):
                own, given = words[j + c, i // 8 :], turned[c]
                # By one instruction where the number is known.
                if down == _TILE:
                    for w in range(_TILE // 8):
                        own[w] = given[w]
                else:
                    for w in range(down // 8):
                        own[w] = given[w]


@inner
def _combine(target, straight, source, transposed, weight, other, p, m):
    """target = straight source + transposed target + weight other, modulo p."""
    for j in range(target.size):
        r, t, s = np.int64(source[j]), np.int64(target[j]), np.int64(other[j])
        target[j] = reduce_sum(straight * r + transposed * t + weight * s, p, m)


@kernel
def fill_rows(residues, table, side, lo, hi):
    """Derive rows lo..hi of a triangle of each matrix of the products of a table.

    `residues`: (products, matrices, n, n padded to whole groups); `table`: rows of
    `mirror_table`; `side`: below 0 the lower triangle, or more, above 0 the upper one,
    0 both.
    """
    turned = np.zeros((_TILE, _TILE // 8), np.uint64)
    for number in range(len(table)):
        target, source, other, straight, transposed, weight, p, m = table[number]
        for matrix in range(residues.shape[1]):
            x, y = residues[source, matrix], residues[target, matrix]
            z = residues[other, matrix]
            _turn(x, y, side, lo, hi, turned)
            if straight != 0 or transposed != 1 or weight != 0:
                for i in range(lo, hi):
                    _combine(y[i], straight, x[i], transposed, weight, z[i], p, m)


@cache
def mirror_table(system: ResidueSystem) -> Array:
    """Tabulate the products that have a mirror.

    Each row: the product, its source, the product that is added; what the source, its
    transpose and that product are multiplied by; and p with its multiplier.
    """
    rows = []
    for q, product in enumerate(system.products):
        if (x := product.mirror) is None:
            continue
        other = x.source if x.other is None else x.other
        weights = x.straight, x.transposed, x.other_weight
        rows.append((q, x.source, other, *weights, product.p, multiplier(product.p)))
    return read_only(np.array(rows, np.int64).reshape(-1, 8))


def fill_mirrors(system: ResidueSystem, residues: Array, side: int) -> None:
    """Derive a triangle of the products that have a mirror, or more."""
    table, n = mirror_table(system), residues.shape[2]

    def fill(number: int) -> None:
        fill_rows(residues, table[number : number + 1], side, 0, n)

    # A product takes a nanosecond for some eight residues.
    run_each(fill, range(len(table)), residues.size // 8)
