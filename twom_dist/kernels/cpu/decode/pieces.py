"""Pieces of rows that are decoded together, and the scratch that they take."""

import threading
from math import prod

import numpy as np

from ....typing import Array
from ..buffers import empty_lines

# Entries decoded together at most. Zen 2, 16 2M moduli, 1 thread: 12.3 ns an entry;
# with 256, 12.9, since each piece takes a time of its own.
PIECE = 512

# Rows of an update that are derived, decoded and closed one after the other, while they
# are in the caches: a multiple of the sides of the squares that all three take.
BAND = 64


def piece_width(n: int, length: int, side: int) -> int:
    """Cut n into equal pieces of up to `PIECE`, whole lines of the cache.

    If several rows, `length` apart, fit into a piece, take as many: all of each, so
    that those of a triangle are to be short.
    """
    if (2 if side == 0 else 4) * length <= PIECE:
        return PIECE // length * length
    pieces = max(1, -(-n // PIECE))
    return -(-n // (8 * pieces)) * 8


_local = threading.local()
# Numbers that rows are longer than their pieces, and whole multiples of.
_ROOM = 32


def scratch_lines(
    moduli: int, digits: int, components: int, shape: tuple[int, int]
) -> tuple[Array, ...]:
    """Return this thread's arrays as `decode_rows` takes them, aligned to cache lines.

    Two times int32 of the moduli, and numbers of the digits and of the components, of
    shape (count, *shape): the second and the third are followed by themselves with
    both parts as one line.

    All lie in one block, and rows are longer than `shape` says: where the rows of 4 KB
    of arrays from anywhere displaced each other, some processes took 33 ns for an entry
    that took others 20 (Zen 2). What the last call has left may be computed with, and
    not used: it must not be a NaN.
    """
    key = moduli, digits, components, shape
    if getattr(_local, "key", None) != key:
        parts, width = shape
        row = parts, (-(-width // _ROOM) + 1) * _ROOM
        halves = -(-moduli // 2)
        size = 2 * halves + digits + components, *row
        block = empty_lines(8 * prod(size)).view(np.float64).reshape(size)
        block.fill(0)
        small, d, v = np.split(block, np.cumsum((2 * halves, digits)))
        both = (t.reshape(len(t), -1) for t in (d, v))
        _local.key = key
        _local.arrays = (
            small.view(np.int32).reshape(2, 2 * halves, *row),
            *(x for pair in zip((d, v), both, strict=True) for x in pair),
        )
    arrays: tuple[Array, ...] = _local.arrays
    return arrays
