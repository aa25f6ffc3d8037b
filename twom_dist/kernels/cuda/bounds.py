"""Products of magnitudes: the launches of bounds.cu.

None by cuBLAS: its products of doubles and singles may be emulated, by a setting of the
environment or of its handle, to fewer bits than those that decide about moduli.
"""

from typing import Any

import numpy as np

from ...moduli import ZERO_ROW
from ...typing import Array
from ..fallbacks import unit_rows
from ..family import namespace
from . import tuning
from .launch import LARGEST_STACK, Device, Triple, remember
from .sources import module_for

_SIDE = 64  # of the squares of pairs that a block takes


def multiply_magnitudes(device: Device, x: Array, y: Array, bits: int) -> Array:
    """Sum floor(x 2^bits) floor(y 2^bits) along k."""
    sums = device.filled((len(x), len(y)), np.int64)
    _bound(device, "multiply_magnitudes", x, y, np.int32(bits), sums)
    return sums


def largest_terms(device: Device, x: Array, y: Array) -> Array:
    """Find the exponents of the largest terms."""
    terms = device.filled((len(x), len(y)), np.int32, ZERO_ROW & 0xFF)
    _bound(device, "largest_terms", x, y, terms)
    return terms


def smallest_cosines(
    device: Device,
    x: Array,
    y: Array,
    of_x: tuple[Array, Array],
    of_y: tuple[Array, Array],
    bits: int,
) -> Array:
    """Multiply all pairs of rows, of norm 1, and keep the smallest."""
    xp = namespace(x)
    left = unit_rows(x, *of_x, bits, left_out=np.nan)
    right = left if y is x else unit_rows(y, *of_y, bits, left_out=np.nan)
    (count, m, k), n = left.shape, right.shape[1]
    # As floats they are above every cosine.
    found = device.filled((count,), np.uint32, 0x7F)
    squares = -(-m // _SIDE) * -(-n // _SIDE)
    for lo in range(0, count if m * n * k else 0, LARGEST_STACK):
        part = slice(lo, lo + LARGEST_STACK)
        grid = squares, 1, min(LARGEST_STACK, count - lo)
        sizes = np.int64(n), np.int64(k)
        args = left[part], np.int64(m), right[part], *sizes, found[part]
        device.launch(module_for("bounds"), "smallest_sums", grid, (256, 1, 1), args)
    return xp.minimum(found.view(np.float32), np.float32(1))


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
    squares = -(-m // _SIDE) * -(-n // _SIDE)
    pieces = max(1, tuning.BOUND_BLOCKS // squares)
    span = max(tuning.SHORTEST_BOUND, -(-k // pieces))
    span = -(-span // 32) * 32
    return (squares, -(-k // span), 1), span
