"""Contractions that NumPy, CuPy or dask compute, by functions of their own."""

from collections.abc import Callable
from string import ascii_letters
from typing import Any

import numpy as np

from ..kernels.family import family_of, namespace
from ..kernels.limits import Shape
from ..kernels.registry import engine_of
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from .arrays import permute
from .layout import PairLayout, fuse, split
from .subscripts import Term

# float32, float64, complex64 and complex128 go through int8 products or the BLAS.
PRODUCT_KINDS = "fdFD"
Native = Callable[[], Any]  # what computes a contraction natively


def dtype_of(a: Any, b: Any) -> np.dtype[Any]:
    """Return the dtype of a product."""
    dtype: np.dtype[Any] = a.dtype
    return dtype if dtype == b.dtype else np.result_type(dtype, b.dtype)


def engine_for(x: Any, choice: Choice) -> str:
    """Name the engine of a product of x."""
    return engine_of(choice.engine, family_of(x._meta if is_dask(x) else x))


def is_native(a: Any, b: Any, routine: str, shape: Shape, choice: Choice) -> bool:
    """Decide whether a product is left to the library of its operands.

    Array expressions are never left to dask: it lacks most of these products for them.
    """
    dtype = dtype_of(a, b)
    if dtype.char not in PRODUCT_KINDS:
        return True
    x = b if is_dask(b) else a
    if hasattr(x, "expr"):
        return False
    return choice.is_native(engine_for(x, choice), routine, dtype, shape)


def multiply_natively(a: Any, b: Any, layout: PairLayout) -> Any:
    """Multiply arrays in memory by their library."""
    x, y, _ = fuse(a, b, layout)
    x = x if layout.left.op == "N" else x.swapaxes(-1, -2)
    y = y if layout.right.op == "N" else y.swapaxes(-1, -2)
    return split(namespace(a).matmul(x, y), layout)


def contract_by_dask(
    a: Any, b: Any, terms: tuple[Term, Term], output: Term, native: Native | None
) -> Any:
    """Contract two operands as dask does, by `native` if its own function is known."""
    import dask.array as da

    if native is None:
        own = dict.fromkeys((*terms[0], *terms[1]))
        letters = dict(zip(own, ascii_letters, strict=False))
        left, right, out = ("".join(letters[x] for x in y) for y in (*terms, output))
        found = da.einsum(f"{left},{right}->{out}", a, b)
    else:
        found = native()
    return found.astype(dtype_of(a, b))  # dask sums small integers in larger types


def multiply_entries(a: Any, b: Any, terms: tuple[Term, Term], output: Term) -> Any:
    """Multiply entries where no letter is contracted."""
    x, y = (
        permute(x, tuple(term.index(t) for t in output if t in term))[
            tuple(slice(None) if t in term else None for t in output)
        ]
        for x, term in zip((a, b), terms, strict=True)
    )
    return x * y
