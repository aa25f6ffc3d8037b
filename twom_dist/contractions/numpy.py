"""NumPy's names, and so those of the array API, with this package's products.

This package computes ``matmul``, ``tensordot``, ``einsum``, ``vecdot`` and ``dot``,
also in ``linalg``. Every other function comes from the library of its first array:
NumPy, CuPy, dask or another library that follows the array API; without an array, from
NumPy.
"""

from typing import Any

import numpy as np

from . import linalg as linalg
from .dot import dot, vecdot
from .forward import forward
from .functions import einsum, matmul, tensordot

__all__ = ["dot", "einsum", "matmul", "tensordot", "vecdot"]


def __getattr__(name: str) -> Any:
    return forward(np, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *np.__all__})
