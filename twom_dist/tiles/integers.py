"""Tiles of integers, and of pairs of them, on their way to the engines.

Engines take floating-point numbers. Integers that these hold exactly keep their dtype
in memory, in graphs and in transit, and are widened tile by tile.
"""

from typing import Any

import numpy as np

from ..kernels.family import namespace
from ..typing import Array

_SLAB = 32  # so many rows of a scattered stack are copied at a time


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

    `largest`: their largest magnitude; single precision holds integers up to 2^24.
    """
    found = np.dtype(stored)
    if largest is None:
        largest = largest_magnitude(part_dtype(found))
    size = 4 if largest <= 1 << 24 else 8
    return np.dtype(f"f{size}" if found.names is None else f"c{2 * size}")


def gather(stack: Array) -> Array:
    """Copy matrices whose rows and columns lie scattered, or return a stack as it is.

    Matrix by matrix each line of memory would be fetched again. Samples (time, antenna,
    channel), 8192 x 16 x 64 pairs of int8: 4 ms, NumPy's copy 23 (a core of Zen 5).
    """
    scattered = stack.itemsize not in stack.strides[-2:]
    if not (isinstance(stack, np.ndarray) and stack.ndim > 2 and scattered):
        return stack
    outer = max(range(stack.ndim), key=lambda axis: abs(stack.strides[axis]))
    out = np.empty(stack.shape, stack.dtype)
    # NumPy copies fields one by one.
    bits = f"u{stack.itemsize}" if stack.itemsize <= 8 else stack.dtype
    source, target = (np.moveaxis(x.view(bits), outer, 0) for x in (stack, out))
    for i in range(0, len(source), _SLAB):
        target[i : i + _SLAB] = source[i : i + _SLAB]
    return out


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
