"""alpha and beta: numbers that the dtype of the result can hold."""

from cmath import isinf
from math import inf, nan
from typing import Any

import numpy as np

from ..errors import ArgumentError, PlanError, shown
from ..tiles.routine import Routine

# NaN equals nothing, so caches find it by its identity. A complex factor with a NaN in
# one part makes both parts of the product NaN.
_NAN, _BOTH_NAN = complex(nan), complex(nan, nan)


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
        raise PlanError("beta without C", "Give C, or leave beta out", "no-c")
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
