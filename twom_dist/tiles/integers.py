"""Tiles of integers, and of pairs of them, on their way to the engines.

Engines take floating-point numbers. Integers that these hold exactly keep their dtype
in memory, in graphs and in transit, and are widened tile by tile.
"""

from typing import Any

import numpy as np

from ..kernels.family import namespace
from ..typing import Array


def pair_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of pairs of integers, real part first."""
    return np.dtype(",".join([np.dtype(dtype).newbyteorder("=").str] * 2))


def part_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of the parts of pairs, or the dtype itself."""
    found: np.dtype[Any] = np.dtype(dtype)
    return found if found.names is None else np.dtype(found[0])


def largest_magnitude(dtype: Any) -> int:
    """Return the largest magnitude of a dtype of integers or booleans."""
    found = np.dtype(dtype)
    if found.kind == "b":
        return 1
    info = np.iinfo(found)
    return max(int(info.max), -int(info.min))


def working_dtype(stored: Any, largest: int | None = None) -> np.dtype[Any]:
    """Return the floating-point dtype that integers, or pairs, are widened to.

    `largest`: their largest magnitude, by default that of the dtype; single precision
    holds integers up to 2^24.
    """
    found = np.dtype(stored)
    if largest is None:
        largest = largest_magnitude(part_dtype(found))
    size = 4 if largest <= 1 << 24 else 8
    return np.dtype(f"f{size}" if found.names is None else f"c{2 * size}")


def widen(block: Array, dtype: Any) -> Array:
    """Convert integers, or pairs, to a dtype that holds them, unless they have it."""
    if block.dtype == dtype:
        return block
    if block.dtype.names is None:
        return block.astype(dtype)
    found = np.dtype(dtype)
    if block.ndim > 1 and block.strides[-2] == block.itemsize:
        return _widen_rows(block.swapaxes(-1, -2), found).swapaxes(-1, -2)
    return _widen_rows(block, found)


def _widen_rows(block: Array, dtype: np.dtype[Any]) -> Array:
    if block.strides[-1] != block.itemsize:
        block = np.ascontiguousarray(block)
    parts = block.view(part_dtype(block.dtype))
    return parts.astype(f"f{dtype.itemsize // 2}", order="C").view(dtype)


def no_exponents(rows: Array) -> Array:
    """Return the exponents of rows of integers, which are not scaled: zeros."""
    return namespace(rows).zeros(rows.shape[:-1], np.int32)
