"""Integers in floating point as int64, and complex ones as pairs of it."""

from typing import Any

import numpy as np

from ..errors import portable_errors
from ..kernels.family import empty_block, family_of, namespace
from ..problem.matrices import is_dask
from ..problem.whole import find_largest, largest_whole


def to_int64(x: Any, name: str) -> tuple[Any, int]:
    """Return numbers as integers, and a bound of their magnitudes; refuse others."""
    limit = largest_whole(x.dtype)
    if not is_dask(x):
        largest = find_largest(x, name, limit)
        return _convert(x), largest
    given: dict[str, Any] = {"dtype": np.int64, "token": "twom-integers"}
    given["meta"] = empty_block(family_of(x._meta), np.int64)
    if x.dtype.kind == "c":
        given |= {"new_axis": x.ndim, "chunks": (*x.chunks, (2,))}
    return x.map_blocks(_convert_block, name, limit, **given), limit


def _convert_block(x: Any, name: str, limit: int, block_id: Any = ()) -> Any:
    with portable_errors():
        find_largest(x, name, limit, block=block_id[: x.ndim])
    return _convert(x)


def _convert(x: Any) -> Any:
    if x.dtype.kind != "c":
        return x.astype(np.int64)
    dense = namespace(x).ascontiguousarray(x)
    return dense.view(dense.real.dtype).reshape(*x.shape, 2).astype(np.int64)


def with_imaginary(x: Any) -> Any:
    """Return integers as pairs whose imaginary parts are zeros."""
    if is_dask(x):
        from dask.array import stack, zeros_like

        return stack([x, zeros_like(x)], axis=-1)
    xp = namespace(x)
    return xp.stack((x, xp.zeros_like(x)), axis=-1)
