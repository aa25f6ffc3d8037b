"""The diagonal between op(A) and op(B): a vector of k numbers."""

from typing import Any

import numpy as np

from ..errors import ArgumentError, PlanError
from ..tiles.routine import Routine
from .sizes import is_unknown


def check_diagonal(routine: Routine, diag: Any, k: int, dtype: np.dtype[Any]) -> str:
    """Return the dtype of its entries in a product of this dtype, or refuse it."""
    if len(diag.shape) == 1 and is_unknown(diag.shape[0]):
        raise PlanError(
            "diag has chunks of unknown size",
            "Call its method compute_chunk_sizes() first",
            "unknown-chunks",
        )
    if diag.shape != (k,):
        raise PlanError(
            f"diag has shape {tuple(diag.shape)}, but stands between matrices with "
            f"k={k}",
            f"Give one number for each column of op(A): {k} of them",
            "diag-shape",
        )
    if diag.dtype.kind != "c":
        return np.finfo(dtype).dtype.str
    if routine.hermitian:
        raise ArgumentError(
            f"diag is {diag.dtype}, and with a complex one the result of "
            f"{routine.name} would not be Hermitian",
            "Give diag.real, or call td.gemm or td.syrk",
            "diag-complex",
        )
    return dtype.str
