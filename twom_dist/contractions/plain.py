"""Products of two matrices as they are, in place of layouts and letters.

For NumPy matrices of one dtype these would take a third of our Python's time for a
small product, and they take no chunks of unknown size.
"""

from typing import Any

import numpy as np

from ..auto.choose import is_small
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from .native import PRODUCT_KINDS, is_left_to_dask
from .pair import compare_names, compute, engine_for


def are_plain(x: Any, y: Any) -> bool:
    """Tell matrices that may be multiplied as they are."""
    return (
        type(x) is type(y) is np.ndarray
        and x.ndim == y.ndim == 2
        and x.shape[1] == y.shape[0]
        and x.dtype.char == y.dtype.char
        and x.dtype.char in PRODUCT_KINDS
    )


def differ_first(x: Any, y: Any) -> bool:
    """Tell matrices that cannot be x and x^T or x^H, by their first entries."""
    if 0 in (x.size, y.size):
        return False
    one, other = x.item(0), y.item(0)
    return bool(one != other and one != other.conjugate() and one == one)


def multiply_plain(x: Any, y: Any, choice: Choice) -> Any:
    """Multiply them natively, or as gemm does."""
    shape = (*x.shape, y.shape[1])
    if choice.by_size and (
        is_small(x.dtype, shape)
        or choice.is_native(engine_for(x, choice), "gemm", x.dtype, shape)
    ):
        return np.matmul(x, y)
    return compute("gemm", ("N", "N"), choice, x, y)


def multiply_unsized(a: Any, b: Any, choice: Choice) -> Any:
    """Multiply two matrices, at least one of dask with chunks of unknown size."""
    lazy, known = is_dask(a) and is_dask(b), choice.equilibrate is not None
    twin = compare_names(a, b, (0, 1), (1, 0)) if lazy and not known else None
    fits = a.shape[1] == b.shape[0]  # not if unknown, which is NaN
    if fits and is_left_to_dask(a, b, twin or "gemm", (*a.shape, b.shape[1]), choice):
        return np.matmul(a, b).astype(np.result_type(a.dtype, b.dtype))
    if twin:
        return compute(twin, ("N",), choice, a)
    return compute("gemm", ("N", "N"), choice, a, b)
