"""Contractions that are left to dask: its own graph, and its own chunks."""

from collections.abc import Callable
from string import ascii_letters
from typing import Any

import numpy as np

from ..kernels.family import family_of
from ..kernels.limits import Shape
from ..kernels.registry import engine_of
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from .letters import Term

# float32, float64, complex64 and complex128 go through int8 products or the BLAS.
PRODUCT_KINDS = "fdFD"
# What computes a contraction natively.
Native = Callable[[], Any]


def is_left_to_dask(a: Any, b: Any, routine: str, shape: Shape, choice: Choice) -> bool:
    """Decide whether dask multiplies two arrays, of which one is its own.

    Array expressions are never left to it: it lacks most of these products for them.
    """
    x = a if is_dask(a) else b
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype.char not in PRODUCT_KINDS:
        return True
    if hasattr(x, "expr"):
        return False
    engine = engine_of(choice.engine, family_of(x._meta))
    return choice.is_native(engine, routine, dtype, shape)


def contract_by_dask(
    a: Any, b: Any, terms: tuple[Term, Term], output: Term, native: Native | None
) -> Any:
    """Contract two operands as dask does, by `native` if its own function is known."""
    import dask.array as da

    dtype = np.result_type(a.dtype, b.dtype)
    if native is None:
        own = dict.fromkeys((*terms[0], *terms[1]))
        letters = dict(zip(own, ascii_letters, strict=False))
        left, right, out = ("".join(letters[x] for x in y) for y in (*terms, output))
        found = da.einsum(f"{left},{right}->{out}", a, b)
    else:
        found = native()
    # dask sums small integers and booleans in larger types.
    return found.astype(dtype)
