"""Pieces of rows that are decoded together, and the scratch that they take."""

import threading
from math import prod

import numpy as np

from ....typing import Array
from .digits import PIECE


def piece_width(n: int, length: int) -> int:
    """Cut n into equal pieces of up to `PIECE`, whole lines of the cache.

    If several rows, `length` apart, fit into a piece, take as many.
    """
    if 2 * length <= PIECE:
        return PIECE // length * length
    pieces = max(1, -(-n // PIECE))
    return -(-n // (8 * pieces)) * 8


_local = threading.local()
_LINE = 8  # numbers of a line of the cache


def scratch_lines(
    lengths: tuple[int, int, int, int], shape: tuple[int, int]
) -> tuple[Array, ...]:
    """Return this thread's arrays (length, *shape), of numbers, aligned to cache lines.

    The second and the third are followed by themselves with both parts as one line,
    and of the fourth there is that alone: as `decode_rows` takes them.

    All lie in one block, and rows are a line longer than `shape` says: where the rows
    of 4 KB of arrays from anywhere displaced each other, some processes took 33 ns for
    an entry that took others 20 (Zen 2). What the last call has left is multiplied by
    zeros: it must not be a NaN.
    """
    key = lengths, shape
    if getattr(_local, "key", None) != key:
        parts, width = shape
        block = _aligned_zeros((sum(lengths), parts, width + _LINE))
        ends = np.cumsum(lengths)[:-1]
        small, d, v, lines = np.split(block, ends)
        flat = (t.reshape(len(t), -1) for t in (d, v, lines))
        digits, both_parts, lines = flat
        _local.key, _local.arrays = key, (small, d, digits, v, both_parts, lines)
    arrays: tuple[Array, ...] = _local.arrays
    return arrays


def _aligned_zeros(shape: tuple[int, ...]) -> Array:
    size = prod(shape)
    buffer = np.zeros(size + _LINE - 1)
    start = -(buffer.__array_interface__["data"][0] // 8) % _LINE
    return buffer[start : start + size].reshape(shape)
