"""Products of magnitudes: the launches of bounds.cu."""

from typing import Any

import numpy as np

from ...moduli import ZERO_ROW
from ...typing import Array
from .. import bounds
from . import tuning
from .launch import Device, Triple, remember
from .sources import module_for


def multiply_magnitudes(device: Device, x: Array, y: Array, bits: int) -> Array:
    """Sum floor(x 2^bits) floor(y 2^bits) along k; of many pairs by cuBLAS."""
    if len(x) * len(y) > tuning.LARGEST_BOUND:
        return bounds.multiply_magnitudes(x, y, bits)
    sums = device.filled((len(x), len(y)), np.int64)
    _bound(device, "multiply_magnitudes", x, y, np.int32(bits), sums)
    return sums


def largest_terms(device: Device, x: Array, y: Array) -> Array:
    """Find the exponents of the largest terms."""
    terms = device.filled((len(x), len(y)), np.int32, ZERO_ROW & 0xFF)
    _bound(device, "largest_terms", x, y, terms)
    return terms


def _bound(device: Device, name: str, x: Array, y: Array, *last: Any) -> None:
    """Launch a kernel of bounds.cu."""
    (m, k), n = x.shape, len(y)
    if 0 in (m, n, k):
        return
    grid, span = _bound_grid(m, n, k)
    sizes = np.int64(n), np.int64(k), np.int64(span)
    args = (x, np.int64(m), y, *sizes, *last)
    device.launch(module_for("bounds"), name, grid, (256, 1, 1), args)


@remember
def _bound_grid(m: int, n: int, k: int) -> tuple[Triple, int]:
    """Grid over squares of 64 x 64 pairs and pieces along k, and the pieces' length."""
    squares = -(-m // 64) * -(-n // 64)
    pieces = max(1, tuning.BOUND_BLOCKS // squares)
    span = max(tuning.SHORTEST_BOUND, -(-k // pieces))
    span = -(-span // 32) * 32
    return (squares, -(-k // span), 1), span
