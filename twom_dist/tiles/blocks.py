"""The check of every block that enters a task: kernels trust what they are given.

A dask array may say one thing and its blocks be another: `map_blocks` and
`from_delayed` believe what they are told.
"""

from typing import Any

import numpy as np

from ..errors import ArgumentError, KernelError
from ..kernels.family import Family, empty_block, family_of, namespace
from ..typing import Array, Side
from .integers import widen
from .spec import Spec, is_straight, load_engine

# Beyond, an integer is rounded as it becomes a double.
_EXACT_IN_DOUBLE = 2**53


def check_kind(block: Array, family: Family, dtype: Any) -> Array:
    """Return a block that is a plain array of this family and dtype."""
    dtype = np.dtype(dtype)
    if isinstance(block, np.memmap):
        block = block.view(np.ndarray)
    plain = type(block).__name__ == "ndarray" and family_of(block) == family
    if not plain or block.dtype != dtype:
        kind = f"{type(block).__module__}.{type(block).__qualname__}"
        raise KernelError(
            f"a block is a {kind} of dtype {getattr(block, 'dtype', '?')}, but its "
            f"dask array promises a {family}.ndarray of {dtype}",
            "Give map_blocks or from_delayed the true dtype and meta, or convert the "
            "blocks",
            "block-kind",
        )
    if family == "cupy":
        current = namespace(block).cuda.Device().id
        if block.device.id != current:
            raise KernelError(
                f"a block lies on device {block.device.id}, but the worker's current "
                f"device is {current}",
                "Give each worker one device",
                "block-device",
            )
    return block


def result_meta(meta: Any, spec: Spec) -> Any:
    """Return what tells the blocks of the result, from that of A.

    Without a device a CuPy block is not made of another.
    """
    return empty_block(family_of(meta), spec.dtype) if spec.exact else meta


def check_block(
    block: Array, shape: tuple[int, int], spec: Spec, dtype: Any = None
) -> Array:
    """Return a block of A, B or C that is what the grid says, as it is stored.

    `dtype`: that of the result by default.
    """
    block = check_kind(block, load_engine(spec).family, dtype or spec.dtype)
    if block.shape != shape:
        raise KernelError(
            f"a block has shape {block.shape}, but its dask array promises {shape}",
            "Give map_blocks or from_delayed the true chunks",
            "block-shape",
        )
    return block


def check_tile(block: Array, shape: tuple[int, int], side: Side, spec: Spec) -> Array:
    """Return a block of A or B, as it is stored, that has these rows and k."""
    straight = is_straight(side, spec.op(side))
    stored = shape if straight else shape[::-1]
    return check_block(block, stored, spec, spec.tile_dtype(side))


def cast(block: Array, dtype: np.dtype[Any]) -> Array:
    """Promote a block; refuse integers that a double would round."""
    if block.dtype.names is not None:
        return widen(block, dtype)
    wide = block.dtype.kind in "iu" and block.dtype.itemsize == 8 and block.size
    if wide and max(int(block.max()), -int(block.min())) > _EXACT_IN_DOUBLE:
        raise ArgumentError(
            f"an integer beyond 2^53 would be rounded as it becomes a {dtype}",
            "Convert the matrix with astype(float) to accept that",
            "integer-rounded",
        )
    return block.astype(dtype, copy=False)


def cast_block(block: Array, family: Family, given: Any, dtype: Any) -> Array:
    """Promote a block of a dask array that says it is of dtype `given`.

    In either byte order: NumPy makes the order native as it pickles some slices.
    """
    found, given = getattr(block, "dtype", None), np.dtype(given)
    if found is not None and found.newbyteorder("=") == given.newbyteorder("="):
        given = found
    return cast(check_kind(block, family, given), np.dtype(dtype))
