"""The four dtypes of products, by the letters of their BLAS-typed names."""

from typing import Any

import numpy as np

from ..errors import ArgumentError
from .arguments import TO_INTEGERS

DTYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}


def result_dtype(letter: str | None, **matrices: Any) -> np.dtype[Any]:
    """Return the dtype of the product, or refuse what cannot be promoted to it.

    The letter of a BLAS-typed routine names it; else matrices are promoted together.
    """
    given = {name: x.dtype for name, x in matrices.items() if x is not None}
    for name, source in given.items():
        if source.kind not in "biufc":
            problem = f"{name} has dtype {source}, which is not a dtype of numbers"
            raise ArgumentError(problem, "Convert it with astype", "dtype")
    if letter:
        dtype = np.dtype(DTYPES[letter])
    else:
        dtype = np.result_type(*given.values())
        if dtype.kind in "biu":
            dtype = np.result_type(dtype, np.float64)
        dtype = product_dtype(np.float32 if dtype == np.float16 else dtype)
    for name, source in given.items():
        if not np.can_cast(source, dtype, "safe"):
            problem = f"{name} has dtype {source}, which {dtype} cannot hold safely"
            remedy = "Convert it with astype, or call the routine of its own type"
            raise ArgumentError(problem, remedy, "dtype-unsafe")
    return dtype


def product_dtype(dtype: Any) -> np.dtype[Any]:
    """Return one of the four dtypes of products."""
    found: np.dtype[Any] | None
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError):
        found = None
    if found is None or found.name not in DTYPES.values():
        problem = f"there is no product in {dtype!r}"
        remedy = f"Use {', '.join(DTYPES.values())}"
        if found is not None:
            problem = f"there is no product in {found}"
            if found.kind in "iu":
                remedy += f". {TO_INTEGERS}"
            elif found.itemsize > 16 or found.char == "g":
                remedy += ", or td.twofold for twice the digits"
        raise ArgumentError(problem, remedy, "dtype")
    return found


def letter_of(dtype: Any) -> str:
    """Return the letter of the BLAS-typed names for a dtype of products."""
    name = product_dtype(dtype).name
    return next(letter for letter, of_letter in DTYPES.items() if of_letter == name)
