"""Targets of accuracy: a bound by name or number, a number of moduli, or exactness."""

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, cast

from ..errors import AccuracyError, shown
from ..moduli.accuracy import BY_ENTRIES, NAMED_BITS
from ..typing import Accuracy, as_integer


@dataclass(frozen=True)
class Bound:
    """``|dC_ij| <= sqrt(k) eps ||a_i|| ||b_j||``, 0 < eps <= 0.5."""

    eps: float

    def __str__(self) -> str:
        return f"accuracy={self.eps}"


@dataclass(frozen=True)
class Moduli:
    """A number of moduli, whatever bound they have."""

    count: int

    def __str__(self) -> str:
        return f"num_moduli={self.count}"


@dataclass(frozen=True)
class Exact:
    """A product of integers without rounding; of pairs: real and imaginary parts.

    None if the call does not say what a last axis of length 2 holds.
    """

    pairs: bool | None = None


Target = Accuracy | Bound | Moduli | Exact


def parse_target(accuracy: Any, num_moduli: Any) -> Target:
    """Return the target; refuse unknown values, and two at once."""
    if accuracy is not None and num_moduli is not None:
        raise AccuracyError(
            f"accuracy={shown(accuracy)} and num_moduli={shown(num_moduli)} are both "
            "given",
            "Give one of them",
            "accuracy-twice",
        )
    if num_moduli is None:
        return BY_ENTRIES if accuracy is None else _parse_accuracy(accuracy)
    count = as_integer(num_moduli)
    if count is None:
        problem = f"num_moduli={shown(num_moduli)} is not an integer"
        raise AccuracyError(problem, "", "num-moduli")
    return Moduli(count)


def _is_number(text: str) -> bool:
    try:
        return bool(float(text))
    except ValueError:
        return False


def _parse_accuracy(accuracy: Any) -> Target:
    if isinstance(accuracy, str):
        if accuracy in NAMED_BITS:
            return cast(Accuracy, accuracy)
        remedy = (
            "Use one of them, or a target such as 1e-12; the default, "
            f"{BY_ENTRIES!r}, is as accurate as the BLAS"
        )
        if _is_number(accuracy):
            remedy = f"Give the number: accuracy={accuracy}"
        elif accuracy == "exact":
            remedy = (
                "Call td.integers.gemm, or give --exact, for integers without rounding"
            )
        names = ", ".join(map(repr, NAMED_BITS))
        problem = f"accuracy={shown(accuracy)} is not one of {names}"
        raise AccuracyError(problem, remedy, "accuracy")
    kinds: Any = (Real, Decimal)  # a type checker finds no order among them
    try:
        # Compared before it becomes a float, which an integer may exceed.
        valid = isinstance(accuracy, kinds) and 0 < accuracy <= 0.5
        if valid and float(accuracy) > 0:
            return Bound(float(accuracy))
    except ArithmeticError:  # NaN of Decimal
        pass
    problem = (
        f"the target accuracy={shown(accuracy)} is not a number above 0 and up to 0.5"
    )
    raise AccuracyError(problem, "Use one such as 1e-12", "accuracy")
