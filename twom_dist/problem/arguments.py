"""Unknown and missing arguments, refused in the name of the function."""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from ..errors import ArgumentError, shown

P = ParamSpec("P")
R = TypeVar("R")

_SPACES = ("integers", "twofold", "xarray")  # modules with routines of the same names
# Options of BLAS, LAPACK and SciPy, and of solvers, with those of ours.
_MEANT = {
    "trans": "op",
    "op": "op_a",
    "transa": "op_a",
    "trans_a": "op_a",
    "transb": "op_b",
    "trans_b": "op_b",
    "lower": "uplo",
    "tol": "accuracy",
    "rtol": "accuracy",
    "overwrite_c": "out",
}
# What only plans and clusters take.
_WORKERS = ("n_workers", "threads_per_worker", "memory_limit")
_PLACED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Have Python's own TypeError of a call say what the function takes."""

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except TypeError:
            # Looked at afterwards: for every call it would take half of our time.
            check_arguments(function, args, options)
            raise

    return called


def name_routine(function: Any) -> str:
    """Name a routine as its caller does: ``zherk``, ``integers.gemm``."""
    name = getattr(function, "__name__", None) or shown(function)
    module = getattr(function, "__module__", None) or ""
    space = next((x for x in _SPACES if x in module.split(".")), None)
    return f"{space}.{name}" if space else name


def check_arguments(
    function: Callable[..., Any],
    given: tuple[Any, ...],
    options: Mapping[str, Any],
    caller: Callable[..., Any] | None = None,
) -> None:
    """Refuse what a function does not take, and what it lacks.

    `caller`: the function that it was given to, whose options are named as well.
    """
    name, taken = name_routine(function), signature(function).parameters
    placed = [x for x, y in taken.items() if y.kind in _PLACED]
    named = [x for x, y in taken.items() if y.kind in _NAMED]
    beside = signature(caller).parameters.values() if caller else ()
    own = [x.name for x in beside if x.kind is x.KEYWORD_ONLY]
    kinds = {x.kind for x in taken.values()}
    for option in options:
        if option not in named and Parameter.VAR_KEYWORD not in kinds:
            text = f"It takes {', '.join(taken)}"
            if caller:
                text += f"; {caller.__name__} itself takes {', '.join(own)}"
            if option in _WORKERS:
                start = f"td.local_cluster({option}=...)"
                text = f"The workers are those of the client: start {start}. {text}"
            if meant := _find_meant(option, [*named, *own]):
                text = f"Did you mean {meant}? {text}"
            problem = f"{name} has no option {option!r}"
            raise ArgumentError(problem, text, "unknown-option")
    if len(given) > len(placed) and Parameter.VAR_POSITIONAL not in kinds:
        problem = f"{name} takes {len(placed)} arguments by position, not {len(given)}"
        remedy = f"Give {', '.join(placed)}; all else by name"
        remedy = remedy if placed else f"Give by name {', '.join(named)}"
        raise ArgumentError(problem, remedy, "by-position")
    here = {*placed[: len(given)], *options}
    for x, y in taken.items():
        if y.kind in (*_PLACED, *_NAMED) and y.default is y.empty and x not in here:
            first = [x for x in placed if taken[x].default is y.empty]
            remedy = f"Call {name}({', '.join(first)}, ...)" if x in placed else ""
            raise ArgumentError(f"{name} needs {x}", remedy, f"no-{x.lower()}")


def _find_meant(option: str, taken: Collection[str]) -> str:
    """Find the option that goes by another name elsewhere, or was misspelt; or none."""
    told = option.lower()
    while told not in taken and told in _MEANT:
        told = _MEANT[told]
    return next(iter(get_close_matches(told, taken, 1, cutoff=0.65)), "")
