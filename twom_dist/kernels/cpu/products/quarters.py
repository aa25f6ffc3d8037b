"""Products of planes in quarters, seven for eight: see `twom_dist.kernels.winograd`.

Each product of planes is computed as a whole, with the sums of quarters before and
after it, so that all stays in the caches.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ..buffers import empty
from ..jit import kernel
from ..layout import read_only
from ..planes import DEPTH, GROUP, CpuEncoded
from ..threads import run_each
from .macrokernel import cut_rows, multiply_quarter, product_table
from .modular import LONG, SHORT, join_long, join_short, sum_left, sum_right

_BYTES = GROUP * DEPTH


class _Part(NamedTuple):
    """Groups of rows and words along k of a plane (groups, bytes of a group)."""

    plane: Array
    group: int
    word: int
    groups: int
    words: int

    @property
    def first(self) -> tuple[int, int]:
        """The first group, and its first byte."""
        return self.group, self.word * _BYTES

    def quarters(self, w: int) -> list["_Part"]:
        """Cut rows in half, k after w words; the second pieces may be shorter."""
        g = -(-self.groups // 2)
        cut = ((0, g), (g, self.groups - g)), ((0, w), (w, self.words - w))
        return [
            _Part(self.plane, self.group + i, self.word + j, down, across)
            for i, down in cut[0]
            for j, across in cut[1]
        ]


@kernel
def _sum_quarters(x, group, word, groups, words, right, p, out):
    """out = S1, S2, S3, S4 of a plane of A, or T1, T2, T3, T4 of one of B^T."""
    height, width = out.shape[1], out.shape[2]
    zeros = np.zeros(width, np.int8)
    none, second = zeros.ctypes.data, words * _BYTES - width
    for g in range(height):
        upper = x.ctypes.data + (group + g) * x.shape[1] + word * _BYTES
        lower = upper + height * x.shape[1] if g < groups - height else none
        place = out.ctypes.data + g * width
        for lo, hi in ((0, second), (second, width)):
            # Where second pieces end, zeros follow.
            b = upper + width if lo < second else none
            d = lower + width if lo < second and lower != none else none
            args = b, lower + lo, d, place + lo, height * width, (hi - lo) // _BYTES, p
            if right:
                sum_right(upper + lo, *args)
            else:
                sum_left(upper + lo, *args)


@kernel
def _join_quarters(products, out, old, add, rows, columns, p):
    """out[rows, columns] = C, or old + C, from the quarters P1, ..., P7."""
    height, width = products.shape[1], products.shape[2]
    unused, apart = np.zeros(width, np.int8), height * width
    for i in range(height):
        for lo, hi in ((0, width), (width, columns)):
            top = out.ctypes.data + i * out.shape[1] + lo
            bottom = top + height * out.shape[1]
            old_top = old.ctypes.data + i * out.shape[1] + lo
            old_bottom = old_top + height * out.shape[1]
            if height + i >= rows:
                bottom = old_bottom = unused.ctypes.data
            source = products.ctypes.data + i * width
            count = (hi - lo) // LONG
            last = LONG * count
            rest = (hi - lo - last) // SHORT
            to = apart, top, bottom, old_top, old_bottom, count
            join_long(source, *to, lo == 0, add, p)
            top, bottom = top + last, bottom + last
            to = apart, top, bottom, old_top + last, old_bottom + last, rest
            join_short(source + last, *to, lo == 0, add, p)


def _multiply_parts(
    x: _Part,
    y: _Part,
    out: Array,
    p: int,
    entry: Array,
    tiles: Array | None,
    levels: int,
) -> None:
    """Multiply parts of planes modulo p into the first rows and columns of out."""
    rows, words = GROUP * x.groups, min(x.words, y.words)  # beyond, zeros meet
    if words == 0:
        out[...] = 0
    elif levels == 0:
        given = x.plane, x.first, y.plane, y.first, words, out, rows, y.groups
        multiply_quarter(*given, *cut_rows(words, tiles is not None), entry, tiles)
    else:
        _multiply_by_seven(x, y, out, rows, None, p, entry, tiles, levels)


def _multiply_by_seven(
    x: _Part,
    y: _Part,
    out: Array,
    rows: int,
    before: Array | None,
    p: int,
    entry: Array,
    tiles: Array | None,
    levels: int,
) -> None:
    w = -(-max(x.words, y.words) // 2)
    (a11, a12, _, a22), (b11, b21, _, b22) = x.quarters(w), y.quarters(w)
    s1, s2, s3, s4 = _sums_of(x, a11, False, p)
    t1, t2, t3, t4 = _sums_of(y, b11, True, p)
    factors = (
        *((a11, b11), (a12, b21), (s4, b22), (a22, t4)),
        *((s1, t1), (s2, t2), (s3, t3)),
    )
    products = empty((7, GROUP * a11.groups, GROUP * b11.groups), np.int8)
    for product, (left, right) in zip(products, factors, strict=True):
        _multiply_parts(left, right, product, p, entry, tiles, levels - 1)
    old = read_only(out) if before is None else before
    added = before is not None
    _join_quarters(products, out, old, added, rows, GROUP * y.groups, p)


def _sums_of(part: _Part, quarter: _Part, right: bool, p: int) -> list[_Part]:
    """Sum the quarters of a part: four parts of the size of the first quarter."""
    sums = empty((4, quarter.groups, quarter.words * _BYTES), np.int8)
    _sum_quarters(*part, right, p, sums)
    return [_Part(x, 0, 0, quarter.groups, quarter.words) for x in sums]


def multiply_in_quarters(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None,
    own: Sequence[int],
    tiles: Array | None,
    levels: int,
) -> None:
    """Multiply the products `own` by halves, and add residues of their shape."""
    table = product_table(system)
    x, y = (
        planes.reshape(*planes.shape[:2], -1) for planes in (left.planes, right.planes)
    )
    groups, words = left.planes.shape[1:3]
    columns = right.planes.shape[1]

    def multiply(q: int) -> None:
        product = system.products[q]
        a = _Part(x[left.order[product.left]], 0, 0, groups, words)
        b = _Part(y[right.order[product.right]], 0, 0, columns, words)
        old = None if before is None else before[q]
        args = residues[q], left.rows, old, product.p, table[q], tiles, levels
        _multiply_by_seven(a, b, *args)

    run_each(multiply, own)
