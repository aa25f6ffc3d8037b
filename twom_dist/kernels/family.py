"""Families of arrays: NumPy, and CuPy without importing it."""

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

Family = Literal["numpy", "cupy"]


def family_of(x: Any) -> Family:
    """Tell a CuPy array from everything that NumPy understands.

    >>> family_of([[1, 2]])
    'numpy'
    """
    kind: Any = type(x)
    return _family_of_kind(kind)


# A small product asks ten times.
@lru_cache(maxsize=256)
def _family_of_kind(kind: Any) -> Family:
    return "cupy" if kind.__module__.split(".")[0] == "cupy" else "numpy"


def convert(x: Any, family: Family) -> Any:
    """Move a block to a family, if it is of another."""
    if family_of(x) == family:
        return x
    import cupy

    return cupy.asarray(x) if family == "cupy" else cupy.asnumpy(x)


def bring_to_host(x: Any) -> Any:
    """Copy a large block to memory that a device can reach, or to any other.

    To pinned memory a device copies as fast as its link is; CuPy keeps what it has
    pinned for the next block.
    """
    if family_of(x) == "numpy" or not x.size:
        return convert(x, "numpy")
    import cupy
    import cupyx

    try:
        host = cupyx.empty_pinned(x.shape, x.dtype)
    except cupy.cuda.runtime.CUDARuntimeError:
        return convert(x, "numpy")
    return x.get(out=host)


def empty_block(family: Family, dtype: Any) -> Any:
    """Make an empty matrix that tells what blocks are, without a device."""
    if family == "numpy":
        return np.empty((0, 0), dtype)
    import cupy

    nothing = cupy.cuda.UnownedMemory(0, 0, None, device_id=0)
    pointer = cupy.cuda.MemoryPointer(nothing, 0)
    return cupy.ndarray((0, 0), dtype, memptr=pointer)


def namespace(x: Any) -> Any:
    """Return the module whose functions take x: numpy, or cupy."""
    return sys.modules["cupy"] if family_of(x) == "cupy" else np


def join(parts: Sequence[Any]) -> Any:
    """Put arrays side by side along their last axis."""
    if len(parts) == 1:
        return parts[0]
    return namespace(parts[0]).concatenate(parts, axis=-1)


def address_of(x: Any) -> int:
    """Return the address of the first entry, of an array in memory or on a device."""
    described = getattr(x, "__array_interface__", None) or x.__cuda_array_interface__
    return int(described["data"][0])


def deliver(found: Any, out: Any) -> Any:
    """Return what was found, in `out` if there is one."""
    if out is None or found is out:
        return found
    out[...] = found
    return out
