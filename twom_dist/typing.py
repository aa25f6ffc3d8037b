"""Types shared by the layers."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

# A NumPy or CuPy array: engines take and give arrays of their own family.
Array = Any
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

Op = Literal["N", "T", "C"]
Side = Literal["left", "right"]
Uplo = Literal["full", "lower", "upper"]
