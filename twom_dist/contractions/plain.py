"""Products of two matrices as they are, in place of layouts and letters.

For NumPy matrices of one dtype these would take a third of our Python's time for a
small product, and they take no chunks of unknown size.
"""

from typing import Any

import numpy as np

from ..api.routine import compute_call
from ..auto.choose import is_small
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from ..tiles.routine import ROUTINES
from .native import PRODUCT_KINDS, dtype_of, is_native
from .same_operand import compare_names


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
    small = choice.by_size and is_small(x.dtype, shape)
    if small or is_native(x, y, "gemm", shape, choice):
        return np.matmul(x, y)
    return _compute("gemm", choice, x, y)


def multiply_unsized(a: Any, b: Any, choice: Choice) -> Any:
    """Multiply two matrices, at least one of dask with chunks of unknown size."""
    lazy, known = is_dask(a) and is_dask(b), choice.equilibrate is not None
    update = compare_names(a, b, (0, 1), (1, 0)) if lazy and not known else None
    fits = a.shape[1] == b.shape[0]  # not if unknown, which is NaN
    if fits and is_native(a, b, update or "gemm", (*a.shape, b.shape[1]), choice):
        return np.matmul(a, b).astype(dtype_of(a, b))
    return _compute(update, choice, a) if update else _compute("gemm", choice, a, b)


def _compute(name: str, choice: Choice, *matrices: Any) -> Any:
    return compute_call(Call(Terms(ROUTINES[name], choice), *matrices))
