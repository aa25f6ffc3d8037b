"""The four dtypes of products, and alpha and beta: numbers that these can hold."""

from cmath import isinf
from math import inf, nan
from typing import Any

import numpy as np

from ..errors import ArgumentError, PlanError, shown
from ..tiles.routine import Routine

# By the letters of BLAS-typed names.
DTYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
# Exact products may have these, and complex results become pairs then.
INTEGERS = "int32", "int64"
# NaN equals nothing, so caches find it by its identity. A complex factor with a NaN in
# one part makes both parts of the product NaN.
_NAN, _BOTH_NAN = complex(nan), complex(nan, nan)


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
            remedy = "Convert it with astype, or call the routine of its dtype"
            raise ArgumentError(problem, remedy, "dtype-unsafe")
    return dtype


def product_dtype(dtype: Any, others: tuple[str, ...] = ()) -> np.dtype[Any]:
    """Return one of the four dtypes of products, or one of others."""
    found: np.dtype[Any] | None
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError):
        found = None
    names = *DTYPES.values(), *others
    if found is None or found.name not in names:
        problem = f"dtype {dtype!r} is not supported"
        remedy = f"Use {', '.join(names)}"
        if found is not None:
            problem = f"dtype {found} is not supported"
            if found.kind in "iu" and not others:
                remedy += "; td.integers also returns integers"
            elif found.itemsize > 16 or found.char == "g":
                remedy += ", or td.twofold for twice the digits"
        raise ArgumentError(problem, remedy, "dtype")
    return found


def letter_of(dtype: Any, exact: bool = False) -> str | None:
    """Return the letter of the BLAS-typed names for a dtype of products, or of None.

    Of exact products a dtype of integers has its name instead.
    """
    if dtype is None:
        return None
    name = product_dtype(dtype, INTEGERS if exact else ()).name
    return next((letter for letter, x in DTYPES.items() if x == name), str(name))


def as_number(value: Any, name: str) -> complex:
    """Return a factor as Python's number, or refuse what is not one."""
    problem, remedy = "is not a number", ""
    try:
        if np.ndim(value) == 0 and not isinstance(value, str):
            number = complex(value)
            # Integers that are too large raise this themselves; other types become inf.
            if isinf(number) and abs(value) != inf:
                raise OverflowError
            if number != number:
                return _NAN if number.imag == 0 else _BOTH_NAN
            return number + 0j  # no negative zeros: caches take them for zeros
    except OverflowError:
        problem, remedy = "is larger than any double", "Scale the matrices instead"
    except (TypeError, ValueError):
        pass
    raise ArgumentError(f"{name}={shown(value)} {problem}", remedy, "scalar")


def check_beta(routine: Routine, beta: complex | None, C: Any) -> complex:
    """Return beta; refuse a C that would be ignored, and a beta without C."""
    if beta is None:
        if C is None:
            return 0
        problem = "C was given without beta"
        remedy = "Give beta=1 to add C to the product"
        if routine.matrices == 1:
            # Users give two matrices, as to gemm.
            own = f"{routine.name} multiplies A by itself"
            problem = f"{own}, and its second matrix is C"
            remedy = "For A @ B call gemm; give beta=1 to add C"
        raise PlanError(problem, remedy, "no-beta")
    number = as_number(beta, "beta")
    if C is None and number != 0:
        raise PlanError("beta was given without C", "Give C, or leave beta out", "no-c")
    return number


def check_scalars(routine: Routine, dtype: Any, alpha: complex, beta: complex) -> None:
    """Refuse scalars that the dtype cannot hold, or that break the symmetry of C."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if value.imag == 0:
            continue
        if dtype.kind != "c":
            problem = f"{name}={value} is complex and the product is {dtype}"
            remedy = f"Use a real {name}, or convert the matrices to a complex dtype"
            raise ArgumentError(problem, remedy, "scalar-complex")
        if routine.hermitian and not (routine.sums and name == "alpha"):
            raise ArgumentError(
                f"with the complex {name}={value} the result of {routine.name} would "
                "not be Hermitian",
                f"Use a real {name}, or gemm",
                "scalar-not-real",
            )
