"""Conversion of floating-point results to integers, and of complex ones to pairs."""

from sys import modules
from typing import Any

import numpy as np

from ..errors import AccuracyError, ArgumentError, portable_errors, shown
from ..interop.data_arrays import is_labelled
from ..interop.dlpack import adopt
from ..kernels.family import empty_block, family_of, namespace
from ..problem.arguments import checked
from ..problem.integer_valued import as_parts, find_largest, is_floating, largest_whole
from ..problem.matrices import as_array, dask_array, is_dask


@checked
def to_integers(C: Any, *, dtype: Any = "int64", pairs: Any = None) -> Any:
    """Convert a product of integers to integers, and complex numbers to pairs.

    Parameters
    ----------
    C : array
        Floating-point numbers with integer values, such as a result of `herk`, in an
        array of NumPy, CuPy, dask or another library with DLPack, or in a DataArray.
    dtype : dtype, optional
        Integer dtype of the result, such as int64 (default), int32 or uint64.
    pairs : hashable, optional
        Name of the new last dimension, of real and imaginary parts, if C is a complex
        DataArray.

    Returns
    -------
    array
        Array of the shape of C, lazy if C is; if C is complex, with another last axis,
        of length 2, that holds the real and the imaginary parts.

    Raises
    ------
    PlanError, AccuracyError
        For an entry that is not an integer, or that `dtype` cannot hold; for dask
        arrays when a block is computed.

    See Also
    --------
    gemm, herk : Products of integers, exactly, as floating-point numbers.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> samples = np.array([[[3, -4], [1, 2]]], np.int8)
    >>> td.integers.to_integers(td.integers.herk(samples, pairs=True))
    array([[[30,  0]]])
    """
    kind = as_integer_dtype(dtype, "iu").name
    if not is_labelled(C):
        if pairs is None:
            return _to_integers(C, kind)
        problem = f"pairs names a dimension of DataArrays, but C is {shown(type(C))}"
        raise ArgumentError(problem, "Leave it out", "not-labelled")
    parts: tuple[Any, ...] = ()  # the new dimension
    if C.dtype.kind == "c":
        if pairs is None or isinstance(pairs, bool) or pairs in C.dims:
            problem = f"pairs={shown(pairs)} cannot name a new dimension of {C.dims}"
            remedy = "Name that of the real and the imaginary parts, as in pairs='cplx'"
            raise ArgumentError(problem, remedy, "pairs")
        parts = (pairs,)
    given = {"output_core_dims": [parts], "dask": "allowed", "keep_attrs": True}
    return modules["xarray"].apply_ufunc(lambda x: _to_integers(x, kind), C, **given)


def as_integer_dtype(dtype: Any, kinds: str) -> np.dtype[Any]:
    """Return a dtype of one of these kinds: i, u, or O for Python integers."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        found = np.dtype(bool)
    if found.kind not in kinds:
        problem = f"dtype={shown(dtype)} is not one of integers"
        remedy = "Use one such as int64 or int32" + ", or object" * ("O" in kinds)
        raise ArgumentError(problem, remedy, "dtype")
    return found.newbyteorder("=")


def _to_integers(C: Any, kind: str) -> Any:
    (C,), give_back = adopt(C=C)
    C = as_array(C, "C")
    if not is_floating(C.dtype):
        problem = f"C has dtype {C.dtype}, which is not one of floating-point numbers"
        raise ArgumentError(problem, "Convert it with astype", "dtype")
    return give_back(convert(C, "C", kind)[0])


def convert(x: Any, name: str, dtype: str = "int64") -> tuple[Any, int]:
    """Return numbers as integers, and a bound of their magnitudes; refuse others."""
    if not is_dask(x):
        return _convert(x, name, dtype)
    given: dict[str, Any] = {"dtype": dtype, "token": "twom-integers"}
    given["meta"] = empty_block(family_of(x._meta), dtype)
    if x.dtype.kind == "c":
        given |= {"new_axis": x.ndim, "chunks": (*x.chunks, (2,))}
    found = x.map_blocks(_convert_block, name, dtype, **given)
    return found, largest_whole(x.dtype)


def _convert_block(x: Any, name: str, dtype: str, block_id: Any = ()) -> Any:
    with portable_errors():
        return _convert(x, name, dtype, block_id[: x.ndim])[0]


def _convert(x: Any, name: str, dtype: str, block: Any = None) -> tuple[Any, int]:
    largest = find_largest(x, name, largest_whole(x.dtype), block=block)
    parts, shape = as_parts(x), (*x.shape, 2) if x.dtype.kind == "c" else x.shape
    bounds = np.iinfo(dtype)
    if bounds.min == 0 and parts.size and parts.min() < 0:
        problem = f"{name} has a negative part, which {dtype} cannot hold"
        raise AccuracyError(problem, "Use int64", "exact-range")
    # The least integer has no counterpart above zero.
    if largest > bounds.max and (largest > -bounds.min or parts.max() == largest):
        problem = f"{name} has a part of magnitude {largest}, which {dtype} cannot hold"
        raise AccuracyError(problem, "Use int64", "exact-range")
    return parts.reshape(shape).astype(dtype), largest


def with_imaginary(x: Any) -> Any:
    """Return integers as pairs whose imaginary parts are zeros."""
    xp = dask_array() if is_dask(x) else namespace(x)
    return xp.stack((x, xp.zeros_like(x)), axis=-1)
