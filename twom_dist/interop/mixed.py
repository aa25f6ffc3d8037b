"""Parts of integers in one DataArray beside floating-point numbers in the other."""

import sys
from typing import Any

import numpy as np

from ..kernels.family import empty_block, family_of
from ..problem.matrices import is_dask
from ..tiles.integers import pair_dtype, working_dtype


def complete(A: Any, B: Any, pairs: Any) -> tuple[Any, Any, Any]:
    """Make complex numbers of pairs that one matrix has beside a floating-point one.

    Returns both matrices, and the dimension of pairs if there still is one. Everything
    else is returned as it is, to be refused where it does not fit.
    """
    if pairs is None or pairs is False or not _have_dtypes(A, B):
        return A, B, pairs
    if _has_pairs(A, pairs) and _is_floating(B, pairs):
        return _as_complex(A, pairs), B, False
    if _has_pairs(B, pairs) and _is_floating(A, pairs):
        return A, _as_complex(B, pairs), False
    return A, B, pairs


def _have_dtypes(*matrices: Any) -> bool:
    """Tell arrays from datasets of several."""
    return all(hasattr(x, "dtype") for x in matrices)


def _has_pairs(x: Any, pairs: Any) -> bool:
    """Tell pairs of integers that floating-point numbers hold exactly."""
    found = pairs in getattr(x, "dims", ()) and x.sizes[pairs] == 2
    return found and x.dtype.kind in "iu" and x.dtype.itemsize <= 4


def _is_floating(x: Any, pairs: Any) -> bool:
    dims = getattr(x, "dims", (pairs,))
    return pairs not in dims and x.dtype.kind in "fc"


def _as_complex(x: Any, pairs: Any) -> Any:
    return sys.modules["xarray"].apply_ufunc(
        _convert, x, input_core_dims=[[pairs]], dask="allowed", keep_attrs=True
    )


def _convert(x: Any) -> Any:
    """Convert pairs along the last axis, of a dask array block by block."""
    dtype = working_dtype(pair_dtype(x.dtype))
    if not is_dask(x):
        return _view(x, dtype)
    last = x.ndim - 1
    meta = empty_block(family_of(x._meta), dtype)
    whole = x.rechunk({last: 2})
    return whole.map_blocks(_view, dtype, drop_axis=last, dtype=dtype, meta=meta)


def _view(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype.type(0).real.dtype, order="C").view(dtype)[..., 0]
