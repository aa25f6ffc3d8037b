"""Octaves of entries below the largest of their rows, by NumPy."""

import numpy as np

from ...moduli import NONFINITE_ROW, ZERO_ROW
from ...typing import Array
from ..octaves import COUNTED, FAR, FURTHEST, NONE
from .rounding import shift_columns


def octaves(x: Array, largest: Array, shifts: Array | None = None) -> Array:
    """Find the octaves of entries below the largest of their rows."""
    x = shift_columns(x, shifts)
    parts = (x.real, x.imag) if x.dtype.kind == "c" else (x,)
    largest_part = np.maximum.reduce([abs(t) for t in parts])
    below = largest[..., np.newaxis] - np.frexp(largest_part)[1]
    found = np.where(below < FURTHEST, below, FAR)
    masked = (largest == ZERO_ROW) | (largest >= NONFINITE_ROW)
    return np.where((largest_part == 0) | masked[..., np.newaxis], NONE, found).astype(
        np.uint8
    )


def count_octaves(x: Array) -> Array:
    """Count the entries of each row down to some octaves."""
    counts = [(x <= end).sum(axis=-1) for end in COUNTED]
    return np.stack(counts, axis=-1).astype(np.int32)


def multiply_octaves(x: Array, y: Array) -> Array:
    """Find the least sum of octaves of each pair of rows."""
    found = np.full((len(x), len(y)), NONE, np.uint8)
    for left, right in zip(x.T, y.T, strict=True):
        np.minimum(found, left[:, np.newaxis] + right, out=found)
    return found
