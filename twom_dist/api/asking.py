"""Decorators that make a public routine of a function that returns a `Call`.

That function has the parameters and the documentation. The routine computes the call;
plans, explanations, prepared products and jobs use it without computing it.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import cleandoc, signature, unwrap
from types import FunctionType
from typing import Any, Concatenate, TypeVar, cast

from ..errors import ArgumentError, PlanError, shown
from ..interop import labelled
from ..interop.dlpack import adopt
from ..problem.call import Call, Terms
from ..problem.dtypes import DTYPES
from ..problem.problem import of_arrays
from ..run.compute import compute
from ..tiles.routine import ROUTINES
from .types import (
    Askable,
    LabelledOfOne,
    LabelledOfTwo,
    OfOne,
    OfTwo,
    P,
    PairOfOne,
    PairOfTwo,
    SumOfOne,
    SumOfTwo,
)

F = TypeVar("F", bound=Askable)
# What the texts of the symmetric routines have for those of the Hermitian ones.
_SYMMETRIC = {
    "Hermitian": "symmetric",
    "^H": "^T",
    "conj(alpha)": "alpha",
    '"C"': '"T"',
}


def compute_call(call: Call) -> Any:
    """Compute a call, in whatever arrays it was given."""
    terms, A, B, C, out, dim = call
    if dim is not None:
        return labelled.apply(compute_call, call)
    (A, B, C, out), give_back = adopt(A=A, B=B, C=C, out=out)
    return give_back(compute(of_arrays(terms, A, B, C, out)))


def _computing(ask: Callable[..., Call]) -> Any:
    """Return the public function, which computes the call that `ask` returns."""

    @wraps(ask)
    def routine(*args: Any, **kwargs: Any) -> Any:
        return compute_call(ask(*args, **kwargs))

    made: Any = routine
    # What is public returns an array, not a call.
    made.__signature__ = signature(ask).replace(return_annotation=Any)
    made.ask = ask
    return made


def sum_of_two(ask: Callable[Concatenate[Any, Any, Any, P], Call]) -> SumOfTwo[P]:
    """Make gemm, her2k or syr2k."""
    return cast(SumOfTwo[P], _computing(ask))


def sum_of_one(ask: Callable[Concatenate[Any, Any, P], Call]) -> SumOfOne[P]:
    """Make herk or syrk."""
    return cast(SumOfOne[P], _computing(ask))


def of_two(ask: Callable[Concatenate[Any, Any, P], Call]) -> OfTwo[P]:
    """Make a product of two matrices that adds no C."""
    return cast(OfTwo[P], _computing(ask))


def of_one(ask: Callable[Concatenate[Any, P], Call]) -> OfOne[P]:
    """Make an update of one matrix that adds no C."""
    return cast(OfOne[P], _computing(ask))


def pair_of_two(ask: Callable[Concatenate[Any, Any, P], Call]) -> PairOfTwo[P]:
    """Make a product of two matrices that returns two arrays."""
    return cast(PairOfTwo[P], _computing(ask))


def pair_of_one(ask: Callable[Concatenate[Any, P], Call]) -> PairOfOne[P]:
    """Make an update of one matrix that returns two arrays."""
    return cast(PairOfOne[P], _computing(ask))


def labelled_of_two(
    ask: Callable[Concatenate[Any, Any, Any, P], Call],
) -> LabelledOfTwo[P]:
    """Make a product of DataArrays."""
    return cast(LabelledOfTwo[P], _computing(ask))


def labelled_of_one(
    ask: Callable[Concatenate[Any, Any, P], Call],
) -> LabelledOfOne[P]:
    """Make an update of a DataArray."""
    return cast(LabelledOfOne[P], _computing(ask))


def type_by_letter(routine: F, letters: str) -> tuple[F, ...]:
    """Make the BLAS-typed names of a routine, with its signature."""
    return tuple(_type(routine, letter) for letter in letters)


def _type(routine: F, letter: str) -> F:
    name = routine.__name__
    summary, _, rest = cleandoc(routine.__doc__ or "").partition("\n")
    body = rest.partition("\nExamples\n")[0].rstrip()
    text = (
        f"{summary}\n\n`{name}` in {DTYPES[letter]}: every input is promoted to it "
        f'where NumPy\'s "safe" casting\nallows that.\n{body}\n'
    )
    return _vary(routine, letter + name, text, lambda x: x._replace(letter=letter))


def as_symmetric(routine: F) -> F:
    """Make syrk of herk, or syr2k of her2k, where nothing else differs."""
    name = routine.__name__.replace("her", "syr")
    text = cleandoc(routine.__doc__ or "").replace(routine.__name__, name)
    for old, new in _SYMMETRIC.items():
        text = text.replace(old, new)
    symmetric = ROUTINES[name]
    return _vary(routine, name, text, lambda x: x._replace(routine=symmetric))


def _vary(routine: F, name: str, text: str, change: Callable[[Terms], Terms]) -> F:
    """Make a routine with the same parameters whose calls have other terms."""
    like: Any = routine.ask
    # Errors of Python are about a function of this name.
    own: Any = FunctionType(like.__code__, like.__globals__, name, like.__defaults__)
    own.__kwdefaults__, own.__annotations__ = like.__kwdefaults__, like.__annotations__
    own.__qualname__, own.__module__, own.__doc__ = name, like.__module__, text

    @wraps(own)
    def ask(*args: Any, **kwargs: Any) -> Call:
        call: Call = own(*args, **kwargs)
        return call._replace(terms=change(call.terms))

    return cast(F, _computing(ask))


def ask(routine: Any, matrices: tuple[Any, ...], options: Mapping[str, Any]) -> Call:
    """Return the call of a routine without computing it.

    Raises
    ------
    ArgumentError
        Unless `routine` is one of the package's, and takes these matrices and options.
    """
    function: Any = getattr(routine, "ask", None)
    if function is None:
        problem = f"routine={shown(routine)} is not a routine of twom_dist"
        raise PlanError(problem, "Give the function itself, such as td.herk", "routine")
    name, code = function.__name__, unwrap(function).__code__
    positional = code.co_varnames[: code.co_argcount]
    taken = *positional, *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    for option in options:
        if option not in taken:
            text = f"It takes {', '.join(taken)}"
            problem = f"{name} takes no {option!r}"
            raise ArgumentError(problem, text, "unknown-option")
    if len(matrices) > len(positional):
        problem = f"{name} takes {len(positional)} matrices, not {len(matrices)}"
        raise ArgumentError(problem, f"Give {', '.join(positional)}", "two-b")
    # The first ones have no default.
    missing = [x for x in positional[len(matrices) :] if x not in options]
    call: Call = function(*matrices, **{**dict.fromkeys(missing), **options})
    return call
