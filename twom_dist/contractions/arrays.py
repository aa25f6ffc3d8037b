"""Operands of contractions: arrays of numbers with any axes, of one family."""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..interop.dlpack import GiveBack, adopt
from ..kernels.family import family_of
from ..kernels.registry import engine_of
from ..problem.choice import Choice
from ..problem.matrices import as_array, common_family, is_dask
from ..problem.sizes import check_known
from .subscripts import Reduction, Sizes, Term, reduce_each

# float32, float64, complex64 and complex128 go through int8 products or the BLAS.
PRODUCT_KINDS = "fdFD"


def as_operands(
    given: Sequence[Any], names: Sequence[str], out: Any = None
) -> tuple[list[Any], Any, GiveBack]:
    """Return NumPy, CuPy or dask arrays of numbers, or say what cannot be one.

    Returns with them a view of `out` to write to, and a function that gives a result
    back in the kind of array that was given.
    """
    (*arrays, out), give_back = adopt(**dict(zip(names, given, strict=True)), out=out)
    if not all(type(x) is np.ndarray and x.dtype.kind in "biufc" for x in arrays):
        common_family(**dict(zip(names, arrays, strict=True)))
        arrays = [as_array(x, name) for x, name in zip(arrays, names, strict=True)]
        for x, name in zip(arrays, names, strict=True):
            _check(x, name)
    return arrays, out, give_back


def _check(x: Any, name: str) -> None:
    if x.dtype.kind not in "biufc":
        raise ArgumentError(
            f"{name} has dtype {x.dtype}, which is not a dtype of numbers",
            "Convert it with astype; for Python integers call td.integers.matmul",
            "dtype",
        )
    check_known(x.shape, name)


def dtype_of(a: Any, b: Any) -> np.dtype[Any]:
    """Return the dtype of a product."""
    dtype: np.dtype[Any] = a.dtype
    return dtype if dtype == b.dtype else np.result_type(dtype, b.dtype)


def engine_for(x: Any, choice: Choice) -> str:
    """Name the engine of a product of x."""
    return engine_of(choice.engine, family_of(x._meta if is_dask(x) else x))


def strides_of(x: Any) -> Sizes:
    """Return the strides of an array, of a dask array as if it were one block."""
    if not is_dask(x):
        strides: Sizes = x.strides
        return strides
    sizes = (max(1, size) for size in reversed(x.shape))
    return tuple(accumulate(sizes, mul, initial=1))[-2::-1]


def sort_axes(x: Any) -> list[int]:
    """Sort the axes of an array in memory by their strides."""
    return sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))


def reduce_operand(x: Any, reduction: Reduction) -> Any:
    """Take diagonals, drop broadcast axes and sum axes that nothing else has."""
    if reduction.empty:
        return x
    for first, second in reduction.diagonals:
        x = np.diagonal(x, 0, first, second)  # dispatches to each family's own
    if reduction.summed:
        x = x.sum(axis=reduction.summed, dtype=x.dtype.newbyteorder("="), keepdims=True)
    gone = {*reduction.dropped, *reduction.summed}
    return x[tuple(0 if axis in gone else slice(None) for axis in range(x.ndim))]


def reduce_to(x: Any, term: Term, output: Term) -> Any:
    """Contract one operand."""
    (reduction,) = reduce_each((term,), output, (x.shape,))
    axes = tuple(reduction.term.index(letter) for letter in output)
    return permute(reduce_operand(x, reduction), axes)


def permute(x: Any, axes: tuple[int, ...]) -> Any:
    """Transpose an array, unless its axes are in this order already."""
    return x if axes == tuple(range(len(axes))) else x.transpose(axes)
