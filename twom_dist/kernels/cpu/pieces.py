"""Pieces of rows that are decoded together, and the scratch that they take."""

import threading
from math import prod

import numpy as np

from ...typing import Array
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


def scratch_lines(lengths: tuple[int, ...], shape: tuple[int, int]) -> list[Array]:
    """Return this thread's arrays (length, *shape), of numbers, aligned to cache lines.

    What the last call has left is multiplied by zeros: it must not be a NaN.
    """
    key = lengths, shape
    if getattr(_local, "key", None) != key:
        _local.key, _local.arrays = key, [_aligned_zeros(x, shape) for x in lengths]
    arrays: list[Array] = _local.arrays
    return arrays


def _aligned_zeros(length: int, shape: tuple[int, int]) -> Array:
    size = length * prod(shape)
    buffer = np.zeros(size + 7)
    start = -(buffer.__array_interface__["data"][0] // 8) % 8
    return buffer[start : start + size].reshape(length, *shape)
