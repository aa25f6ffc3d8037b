"""NumPy's names, and so those of the array API, with this package's products.

``matmul``, ``tensordot``, ``einsum``, ``vecdot`` and ``dot`` are computed here, and so
are those of ``linalg``. Every other function is that of NumPy, CuPy or dask, or of
another library whose arrays follow the array API, as its first array is; without an
array it is NumPy's.
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
