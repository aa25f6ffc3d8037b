"""Types shared by the layers."""

from operator import index
from typing import Any, Literal

# A NumPy or CuPy array: engines take and give arrays of their own family.
Array = Any

# Indices of a tile of C.
Cell = tuple[int, int]

Op = Literal["N", "T", "C"]
Side = Literal["left", "right"]
Uplo = Literal["full", "lower", "upper"]
# "native" is an old name of "blas".
Method = Literal["2m", "3m", "4m", "hybrid", "eisenstein", "blas", "native", "auto"]
Accuracy = Literal["native", "componentwise", "normwise", "exact"]
EngineName = Literal["auto", "cpu", "cuda", "reference"]


def as_integer(value: Any) -> int | None:
    """Return an integer of any type as Python's; None for all else, booleans too."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None
