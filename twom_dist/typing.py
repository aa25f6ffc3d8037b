"""Types shared by the layers."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

# A NumPy or CuPy array: engines take and give arrays of their own family.
Array = Any
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

# Indices of a tile of C.
Cell = tuple[int, int]

Op = Literal["N", "T", "C"]
Side = Literal["left", "right"]
Uplo = Literal["full", "lower", "upper"]
Method = Literal["2m", "3m", "4m", "hybrid", "native"]
Accuracy = Literal["native", "normwise"]
EngineName = Literal["auto", "cpu", "cuda", "reference"]
