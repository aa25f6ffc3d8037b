"""numpy.linalg, with our products: `twom_dist.numpy.linalg`."""

from typing import Any

import numpy as np

from .dot import vecdot
from .forward import forward
from .functions import matmul, tensordot

__all__ = ["matmul", "tensordot", "vecdot"]


def __getattr__(name: str) -> Any:
    return forward(np.linalg, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *np.linalg.__all__})
