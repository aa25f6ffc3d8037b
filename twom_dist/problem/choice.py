"""Choices: the `Options` of a call, parsed once, where the call enters.

A `Choice` cannot contradict itself, so no code below checks options again. Its target
is a bound by name or number, a number of moduli, or exactness.
"""

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from numbers import Real
from typing import Any, Literal, Self, Unpack, cast

from ..auto.choose import prefers_native
from ..errors import AccuracyError, PlanError, shown
from ..kernels.limits import Shape
from ..kernels.registry import ENGINES
from ..moduli import METHODS
from ..moduli.accuracy import AUTO_METHOD, BY_ENTRIES, NAMED_BITS, NATIVE_METHOD
from ..typing import Accuracy, EngineName, Method, as_flag, as_integer
from .options import Options, OptionsDict


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
        both = f"accuracy={shown(accuracy)} and num_moduli={shown(num_moduli)}"
        raise AccuracyError(
            f"{both} are both given", "Give one of them", "accuracy-twice"
        )
    if num_moduli is None:
        return BY_ENTRIES if accuracy is None else _parse_accuracy(accuracy)
    count = as_integer(num_moduli)
    if count is None:
        problem = f"num_moduli={shown(num_moduli)} is not an integer"
        raise AccuracyError(problem, "", "num-moduli")
    return Moduli(count)


def _parse_accuracy(accuracy: Any) -> Target:
    if isinstance(accuracy, str):
        if accuracy in NAMED_BITS:
            return cast(Accuracy, accuracy)
        remedy = (
            "Use one of them, or a target such as 1e-12; the default, "
            f"{BY_ENTRIES!r}, is as accurate as the BLAS"
        )
        with suppress(ValueError):
            if float(accuracy):
                remedy = f"Give the number: accuracy={accuracy}"
        if accuracy == "exact":
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


_METHODS = (*METHODS, NATIVE_METHOD, AUTO_METHOD)


@dataclass(frozen=True)
class Choice:
    """The accuracy that was asked for, and the engine that is to multiply."""

    target: Target = BY_ENTRIES
    method: Method = "2m"  # "auto" until the shapes are known
    engine: EngineName = "auto"  # "auto" until the family of the blocks is known
    equilibrate: bool | None = None  # None: where it helps
    components: Literal[1, 2] = 1  # numbers of the dtype in an entry of the result
    named: bool = False  # whether an accuracy was asked for, be it the default
    chosen: bool = False  # whether a method was, so that advice is not wanted

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Keys of small products have it: made anew, it took 0.3 us of their 12.
        return hash(self._fields)

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of texts differ between processes.
        return type(self), self._fields

    @property
    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, x.name) for x in fields(self))

    @classmethod
    def of(
        cls, *, components: Literal[1, 2] = 1, **options: Unpack[OptionsDict]
    ) -> "Choice":
        """Parse the `Options` of a routine; refuse contradictions.

        AccuracyError is for an accuracy, a number of moduli or a method, and PlanError
        for an engine that does not exist, and an equilibrate that has no effect.
        """
        try:
            return _parse(components, **options)
        except TypeError:
            # The cache cannot look up lists and arrays, which are refused here.
            return _parse.__wrapped__(components, **options)

    @classmethod
    def exact(
        cls, *, pairs: Any = None, method: Any = "2m", engine: Any = "auto"
    ) -> Self:
        """Parse the options of an exact product."""
        paired = None if pairs is None else as_flag("pairs", pairs)
        name = choose("engine", engine, ENGINES)
        if isinstance(method, str) and method in METHODS:
            return cls(Exact(paired), cast(Method, method), name)
        problem = f"method={shown(method)} is not one of {', '.join(METHODS)}"
        if isinstance(method, str) and method in _METHODS:
            problem = f"method={method!r} gives no exact product"
        raise AccuracyError(problem, "Leave method out", "method")

    @cached_property
    def data_driven(self) -> bool:
        """True if the entries choose the moduli."""
        return self.target == BY_ENTRIES and self.method != NATIVE_METHOD

    @cached_property
    def pairs(self) -> bool:
        """True if entries are pairs of integers."""
        return isinstance(self.target, Exact) and bool(self.target.pairs)

    @cached_property
    def decisive(self) -> str:
        """The given option that only a product through int8 has; or empty."""
        if self.target != BY_ENTRIES or self.named:
            named = isinstance(self.target, str)
            return f"accuracy={self.target!r}" if named else str(self.target)
        if self.equilibrate:
            return "equilibrate=True"
        return "two components" if self.components == 2 else ""

    @cached_property
    def few(self) -> bool:
        """True if the moduli may be so few that every product has to warn."""
        return isinstance(self.target, Moduli) and self.target.count < 4

    @property
    def asked(self) -> str:
        """Text that names what was asked for."""
        if self.method == NATIVE_METHOD:
            return "the native product"
        if isinstance(self.target, Moduli):
            return f"{self.target.count} moduli"
        if isinstance(self.target, Exact):
            return "an exact product"
        bound = self.target.eps if isinstance(self.target, Bound) else self.target
        return f"accuracy {bound}"

    @cached_property
    def by_size(self) -> bool:
        """True if the size of a product decides between int8 and the BLAS: "auto"."""
        asked = self.method == AUTO_METHOD and self.engine != "reference"
        return asked and not self.decisive

    def is_native(
        self, engine: str, routine: str, dtype: Any, shape: Shape, *, tell: bool = True
    ) -> bool:
        """Decide whether a product of this size is left to the BLAS.

        `tell`: whether listeners are told why.
        """
        if not self.by_size:
            return self.method == NATIVE_METHOD
        return prefers_native(engine, routine, dtype, shape, tell=tell)

    def by_int8(self) -> Self:
        """Return the same by the method that "auto" takes for large products."""
        return replace(self, method="2m") if self.method == AUTO_METHOD else self


def choose(name: str, value: Any, allowed: tuple[str, ...]) -> Any:
    """Accept one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise PlanError(*_refuse(name, value, allowed))
    return value


def _refuse(name: str, value: Any, allowed: tuple[str, ...]) -> tuple[str, str, str]:
    """Return problem, remedy and code for a word that is not allowed."""
    choices = ", ".join(map(repr, allowed))
    problem = f"{name}={shown(value)} is not one of {choices}"
    told = value.lower() if isinstance(value, str) else ""
    # Others write ^H, and call the engine by the device.
    told = {"h": "c", "gpu": "cuda"}.get(told, told)
    meant = [x for x in allowed if told and x.lower().startswith(told)]
    return problem, f"Give {name}={meant[0]!r}" if len(meant) == 1 else "", name


# Parsing the same options again would take a tenth of our Python's time for a small
# product. Typed, since 8 moduli are not 8.0.
@lru_cache(maxsize=256, typed=True)
def _parse(components: Any, **options: Unpack[OptionsDict]) -> Choice:
    given = Options(**options)
    if not isinstance(given.method, str) or given.method not in _METHODS:
        raise AccuracyError(*_refuse("method", given.method, _METHODS))
    equilibrate = given.equilibrate
    equilibrate = None if equilibrate is None else as_flag("equilibrate", equilibrate)
    if given.method == NATIVE_METHOD:
        _check_native(given, equilibrate, components)
    engine = choose("engine", given.engine, ENGINES)
    return Choice(
        parse_target(given.accuracy, given.num_moduli),
        cast(Method, given.method),
        engine,
        equilibrate,
        components,
        given.accuracy is not None,
        "method" in options,
    )


def _check_native(given: Options, equilibrate: bool | None, components: int) -> None:
    if not (given.accuracy is None and given.num_moduli is None):
        problem = "method='blas' has the accuracy of the BLAS that it calls"
        remedy = "Leave accuracy and num_moduli out, or use another method"
        raise AccuracyError(problem, remedy, "native-accuracy")
    if equilibrate:
        problem = "method='blas' does not scale its operands"
        raise PlanError(problem, "Leave equilibrate out", "equilibrate")
    if components == 2:
        problem = "method='blas' does not give twice the digits"
        raise AccuracyError(problem, "Use another method", "method")
