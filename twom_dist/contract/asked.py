"""The call that plans and explanations take for matmul."""

from typing import Any

import numpy as np

from ..errors import PlanError
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..tiles.routine import ROUTINES
from ..typing import Accuracy, EngineName, Method
from .pair import PRODUCT_KINDS


def matmul(
    A: Any,
    B: Any,
    *,
    out: Any = None,
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
    method: Method = "auto",
) -> Call:
    """Return the call of gemm that matmul makes of matrices, or of stacks of them."""
    choice = Choice.of(
        accuracy=accuracy,
        num_moduli=num_moduli,
        method=method,
        engine=engine,
        equilibrate=equilibrate,
    )
    dtypes = [x.dtype for x in (A, B) if isinstance(x, np.ndarray)]
    if len(dtypes) == 2 and np.result_type(*dtypes).char not in PRODUCT_KINDS:
        raise PlanError(
            f"td.matmul leaves {dtypes[0]} times {dtypes[1]} to NumPy",
            "For an exact product of integers call td.integers.gemm",
            "dtype",
        )
    return Call(Terms(ROUTINES["gemm"], choice, ("N", "N")), A, B, out=out)
