"""Octaves of entries, multiplied: the launch of octaves.cu."""

import numpy as np

from ...typing import Array
from ..octaves import NONE
from .launch import Device, size_args
from .sources import module_for

_SIDE = 64  # of the squares of pairs that a block takes


def multiply_octaves(device: Device, x: Array, y: Array) -> Array:
    """Find the least sum of octaves of each pair of rows, by squares of pairs."""
    (m, k), n = x.shape, len(y)
    if 0 in (m, n, k):
        return device.filled((m, n), np.uint8, NONE)
    out = device.empty((m, n), np.uint8)
    args = x, y, *size_args(m, n, k), out
    grid = -(-m // _SIDE) * -(-n // _SIDE), 1, 1
    device.launch(module_for("octaves"), "multiply_octaves", grid, (256, 1, 1), args)
    return out
