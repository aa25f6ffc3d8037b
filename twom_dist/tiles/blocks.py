"""Checks of every block that enters a task, since kernels trust their arguments.

The blocks of a dask array may differ from what it declares: `map_blocks` and
`from_delayed` do not check the dtype, meta and chunks that they are given.
"""

from typing import Any

import numpy as np

from ..errors import ArgumentError, KernelError
from ..kernels.family import Family, empty_block, family_of, namespace
from ..typing import Array, Side
from .integers import widen
from .spec import Spec, is_straight, load_engine

TRUE_CHUNKS = "Give map_blocks or from_delayed the true chunks"
_EXACT_IN_DOUBLE = 2**53  # a double rounds larger integers


def check_kind(block: Array, family: Family, dtype: Any) -> Array:
    """Return a block that is a plain array of this family and dtype."""
    dtype = np.dtype(dtype)
    if isinstance(block, np.memmap):
        block = block.view(np.ndarray)
    plain = type(block).__name__ == "ndarray" and family_of(block) == family
    if not plain or block.dtype != dtype:
        kind = f"{type(block).__module__}.{type(block).__qualname__}"
        found = f"a block is a {kind} of dtype {getattr(block, 'dtype', '?')}"
        problem = f"{found}, but its dask array promises a {family}.ndarray of {dtype}"
        remedy = (
            "Give map_blocks or from_delayed the true dtype and meta, or convert it"
        )
        raise KernelError(problem, remedy, "block-kind")
    if family == "cupy":
        current = namespace(block).cuda.Device().id
        if block.device.id != current:
            found = f"a block lies on device {block.device.id}"
            problem = f"{found}, but the worker's current device is {current}"
            raise KernelError(problem, "Give each worker one device", "block-device")
    return block


def result_meta(meta: Any, spec: Spec) -> Any:
    """Return the meta array of the result, from that of A.

    An empty block needs no device; converting a CuPy block would.
    """
    return empty_block(family_of(meta), spec.dtype) if spec.exact else meta


def check_block(
    block: Array, shape: tuple[int, int], spec: Spec, dtype: Any = None
) -> Array:
    """Return a stored block of A, B or C; raise unless it is what the grid says.

    `shape`: NaN where a size was unknown; `dtype`: by default that of the result.
    """
    block = check_kind(block, load_engine(spec).family, dtype or spec.dtype)
    sizes = zip(shape, block.shape, strict=False)
    if block.ndim != len(shape) or any(x == x and x != y for x, y in sizes):
        found = f"a block has shape {block.shape}"
        problem = f"{found}, but its dask array promises {shape}"
        raise KernelError(problem, TRUE_CHUNKS, "block-shape")
    return block


def check_tile(block: Array, shape: tuple[int, int], side: Side, spec: Spec) -> Array:
    """Return a stored block of A or B; raise unless it has these rows and k."""
    straight = is_straight(side, spec.op(side))
    stored = shape if straight else shape[::-1]
    return check_block(block, stored, spec, spec.tile_dtype(side))


def unlike_chunks() -> KernelError:
    """Return the error of chunks that meet, and do not fit."""
    problem = "chunks of the matrices do not match; their sizes were unknown before"
    remedy = "Call the method compute_chunk_sizes() of the arrays first"
    return KernelError(problem, remedy, "block-shape")


def cast(block: Array, dtype: np.dtype[Any]) -> Array:
    """Promote a block; refuse integers that a double would round."""
    if block.dtype.names is not None:
        return widen(block, dtype)
    wide = block.dtype.kind in "iu" and block.dtype.itemsize == 8 and block.size
    if wide and max(int(block.max()), -int(block.min())) > _EXACT_IN_DOUBLE:
        problem = f"converting an integer beyond 2^53 to {dtype} would round it"
        remedy = "Convert the matrix with astype(float) to accept that"
        raise ArgumentError(problem, remedy, "integer-rounded")
    return block.astype(dtype, copy=False)


def check_declared(block: Array, family: Family, given: Any) -> Array:
    """Return a block of a dask array whose declared dtype is `given`.

    The byte order may differ: NumPy makes it native when it pickles some slices.
    """
    found, given = getattr(block, "dtype", None), np.dtype(given)
    if found is not None and found.newbyteorder("=") == given.newbyteorder("="):
        given = found
    return check_kind(block, family, given)


def cast_block(block: Array, family: Family, given: Any, dtype: Any) -> Array:
    """Promote a block as `check_declared` takes it."""
    return cast(check_declared(block, family, given), np.dtype(dtype))
