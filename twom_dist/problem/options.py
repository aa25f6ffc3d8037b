"""The options that all routines share, said once: names, types and defaults."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import Any, TypedDict, TypeVar, get_args

from ..typing import Accuracy, EngineName, Method

F = TypeVar("F", bound=Callable[..., Any])


class OptionsDict(TypedDict, total=False):
    """`Options` as ``**options: Unpack[OptionsDict]``, for type checkers."""

    accuracy: Accuracy | float | None
    num_moduli: int | None
    method: Method
    engine: EngineName
    equilibrate: bool | None


class ExactOptions(TypedDict, total=False):
    """Those of products of integers, which have all the accuracy there is."""

    pairs: bool | None
    method: Method
    engine: EngineName


@dataclass(frozen=True)
class Options:
    """The options of a routine as they were given; `gemm` describes them.

    A `Choice` is what they mean, or the refusal of what they cannot.
    """

    accuracy: Any = None
    num_moduli: Any = None
    method: Any = "2m"
    engine: Any = "auto"
    equilibrate: Any = None


def show_options(function: Callable[..., Any], **defaults: Any) -> Signature:
    """Return the signature that users see: with all that ``**options`` may hold.

    It has no types, which the documentation tells and type checkers read elsewhere.
    `defaults`: those that are not the default of `Options`.
    """
    shown = signature(function).parameters.values()
    taken = [x.replace(annotation=x.empty) for x in shown]
    last = [*shown][-1]
    if last.kind is last.VAR_KEYWORD and get_args(last.annotation):
        (named,) = get_args(last.annotation)
        both = vars(Options) | defaults
        taken[-1:] = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=both.get(name))
            for name in named.__annotations__
        ]
    return Signature(taken)


def with_defaults(**defaults: Any) -> Callable[[F], F]:
    """Have a function show its options, with these defaults."""

    def decorate(function: F) -> F:
        made: Any = function
        made.__signature__ = show_options(function, **defaults)
        return function

    return decorate
