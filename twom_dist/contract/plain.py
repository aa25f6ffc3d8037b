"""The product of two NumPy matrices of one dtype, in place of layouts and letters.

They would take a third of our Python's time for a small product.
"""

from typing import Any

import numpy as np

from ..crossover.choose import decide, is_small
from ..problem.choice import Choice
from .pair import PRODUCT_KINDS, compute, engine_for, may_choose


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
    if may_choose(choice) and (
        is_small(x.dtype, shape)
        or decide(engine_for(x, choice), "gemm", x.dtype, shape)
    ):
        return np.matmul(x, y)
    return compute("gemm", ("N", "N"), choice, x, y)
