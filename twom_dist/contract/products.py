"""The product that a contraction comes down to: one gemm of stacks, or an update."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..api import gemm
from ..errors import AccuracyError, ArgumentError, shown
from ..kernels.family import family_of, namespace
from ..moduli import METHODS
from ..moduli.accuracy import AUTO_METHOD, NATIVE_METHOD, OLD_NATIVE_METHOD
from ..problem.crossover import is_small, may_be_native, prefers_native
from ..problem.exact import EXACT
from ..problem.matrices import is_dask
from .layout import Layout, Side
from .twins import Twin

# What contractions take besides; all else is theirs to say.
OPTIONS = ("method", "accuracy", "num_moduli", "engine", "equilibrate")
# Of products through int8 and BLAS: float32, float64, complex64, complex128.
PRODUCT_KINDS = "fdFD"
_METHODS = (AUTO_METHOD, *METHODS, NATIVE_METHOD, OLD_NATIVE_METHOD)
_ENGINES = {"numpy": "cpu", "cupy": "cuda"}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that no contraction takes."""
    for name in options:
        if name not in OPTIONS:
            raise ArgumentError(
                f"a contraction takes no {name!r}",
                f"It takes {', '.join(OPTIONS)}",
                "unknown-option",
            )
    method, accuracy = options.get("method"), options.get("accuracy")
    if not isinstance(method, str) or method not in _METHODS:
        choices = ", ".join(map(repr, _METHODS))
        raise AccuracyError(
            f"method={shown(method)} is not one of {choices}", "", "method"
        )
    if isinstance(accuracy, str) and accuracy == EXACT:
        raise AccuracyError(
            "a contraction of integers is NumPy's, and wraps around",
            "Call gemm with accuracy='exact', or gaussian_matmul",
            "exact-contraction",
        )


def may_choose(options: Mapping[str, Any]) -> bool:
    """Whether the product may be native, if it is small."""
    engine = options.get("engine", "auto")
    known = isinstance(engine, str) and engine in ("auto", "cpu", "cuda")
    return known and options.get("method") == AUTO_METHOD and may_be_native(options)


def is_faster_natively(
    x: Any, routine: str, dtype: Any, layout: Layout, options: Mapping[str, Any]
) -> bool:
    """Whether a product of arrays in memory is left to NumPy or CuPy."""
    engine = options.get("engine", "auto")
    engine = _ENGINES[family_of(x)] if engine == "auto" else engine
    return prefers_native(engine, routine, dtype, layout.shape)


def is_surely_native(
    a: Any, b: Any, layout: Layout, options: Mapping[str, Any]
) -> bool:
    """Whether NumPy arrays are left to NumPy, whatever more is found out about them."""
    return (
        isinstance(a, np.ndarray)
        and a.dtype.char == b.dtype.char
        and a.dtype.char in PRODUCT_KINDS
        and may_choose(options)
        and is_small(a.dtype, layout.shape)
    )


def multiply(a: Any, b: Any, layout: Layout, options: Mapping[str, Any]) -> Any:
    """Multiply (stacks of) matrices, fused as their layout says."""
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype.char not in PRODUCT_KINDS:
        return multiply_natively(a, b, layout)
    small = not is_dask(a) and may_choose(options)
    if small and is_faster_natively(a, "gemm", dtype, layout, options):
        return multiply_natively(a, b, layout)
    ops = {"op_a": layout.left.op, "op_b": layout.right.op}
    return gemm.call("gemm", a, b, **ops, **options)


def update(
    twin: Twin, a: Any, b: Any, layout: Layout, options: Mapping[str, Any]
) -> Any:
    """Compute a product whose right side is the transpose of the left one, or ^H."""
    given = {name: x for name, x in options.items() if name != "equilibrate"}
    if layout.left.op == "N":
        return gemm.call(twin, a, op="N", **given)
    if twin == "syrk":
        return gemm.call(twin, a, op="T", **given)
    if layout.right.op == "N":
        return gemm.call(twin, b, op="C", **given)
    return gemm.call(twin, a.swapaxes(-1, -2), op="N", **given)


def multiply_natively(a: Any, b: Any, layout: Layout) -> Any:
    """Multiply by the library of the arrays."""
    x, y = _straight(a, layout.left), _straight(b, layout.right)
    if not is_dask(a):
        return namespace(a).matmul(x, y)
    import dask.array as da

    # dask sums small integers and booleans in larger ones.
    return da.matmul(x, y).astype(np.result_type(a.dtype, b.dtype))


def _straight(x: Any, side: Side) -> Any:
    return x if side.op == "N" else x.swapaxes(-1, -2)
