"""Octaves of entries, counted and multiplied: the launches of bounds.cu."""

import numpy as np

from ...typing import Array
from ..octaves import COUNTED, NONE
from .launch import Device, size_args
from .sources import module_for

_SIDE = 64  # of the squares of pairs that a block takes
_ROWS = 8  # of a block that counts, a warp for each


def count_octaves(device: Device, x: Array) -> Array:
    """Count the entries of each row down to some octaves, a warp for each row."""
    out = device.filled((*x.shape[:-1], len(COUNTED)), np.int32)
    rows = out.size // len(COUNTED)
    if x.size:
        args = x, *size_args(rows, x.shape[-1]), out
        grid = -(-rows // _ROWS), 1, 1
        device.launch(module_for("bounds"), "count_octaves", grid, (256, 1, 1), args)
    return out


def multiply_octaves(device: Device, x: Array, y: Array) -> Array:
    """Find the least sum of octaves of each pair of rows, by squares of pairs."""
    (m, k), n = x.shape, len(y)
    if 0 in (m, n, k):
        return device.filled((m, n), np.uint8, NONE)
    out = device.empty((m, n), np.uint8)
    args = x, y, *size_args(m, n, k), out
    grid = -(-m // _SIDE) * -(-n // _SIDE), 1, 1
    device.launch(module_for("bounds"), "multiply_octaves", grid, (256, 1, 1), args)
    return out
