"""The options that all routines share, written once: names, types and defaults."""

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


def show_options(function: F, **defaults: Any) -> F:
    """Have a function show all that its ``**options`` may hold, in their place.

    Its signature has no types, which the documentation tells and type checkers read
    elsewhere. `defaults`: those that are not the default of `Options`.
    """
    shown: Any = function
    given = [*signature(function).parameters.values()]
    taken = [x.replace(annotation=x.empty) for x in given]
    kinds = get_args(given[-1].annotation)
    if taken[-1].kind is Parameter.VAR_KEYWORD and kinds:
        names, both = kinds[0].__annotations__, vars(Options) | defaults
        taken[-1:] = (Parameter(x, _NAMED, default=both.get(x)) for x in names)
        head = f"{', '.join(names)} : optional"
        shown.__doc__ = (function.__doc__ or "").replace(_OPTIONS, head)
    shown.__signature__ = Signature(taken)
    return function


_OPTIONS, _NAMED = "**options : optional", Parameter.KEYWORD_ONLY
