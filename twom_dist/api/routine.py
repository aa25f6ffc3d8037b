"""Decorators that make a public routine of a function that returns a `Call`.

That function has the parameters and the documentation. The routine computes the call;
plans, explanations, prepared products and jobs use it without computing it.
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import cleandoc, signature
from typing import Any, Concatenate, TypeVar, cast

import numpy as np

from ..errors import PlanError, shown
from ..interop import labelled
from ..interop.dlpack import adopt
from ..problem.arguments import check_arguments, name_routine
from ..problem.call import Call, Terms
from ..problem.dtypes import DTYPES
from ..problem.pairs import check_told, is_stack
from ..run.recipes import compute_arrays
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

# Functions of other libraries, by name, and those of ours that multiply the same.
_SAME = {
    **{name: f"td.{name}" for name in ("einsum", "matmul", "tensordot", *ROUTINES)},
    **{x + name: f"td.{x}{name}" for name in ROUTINES for x in DTYPES},
    **{name: f"td.numpy.{name}" for name in ("dot", "vecdot")},
}
# What plans and explanations take instead of functions that run or hold routines.
_INSTEAD = {
    "integers.matmul": "Give td.integers.gemm with the same matrices",
    "Product": "Give the routine that it was made with",
}


def compute_call(call: Call) -> Any:
    """Compute a call, in whatever arrays it was given."""
    terms, A, B, C, out, names, diag = call
    if names is not None:
        return labelled.apply(compute_call, call)
    (A, B, C, out, diag), give_back = adopt(A=A, B=B, C=C, out=out, diag=diag)
    return give_back(compute_arrays(terms, A, B, C, out, diag))


def _computing(ask: Callable[..., Call]) -> Any:
    """Return the public function, which computes the call that `ask` returns."""

    @wraps(ask)
    def routine(*args: Any, **options: Any) -> Any:
        try:
            call = ask(*args, **options)
        except TypeError:
            # As `checked` does, which would take a tenth of our time for a small call.
            check_arguments(ask, args, options)
            raise
        if call.names is None and is_stack(call.A):
            check_told(call.terms, call.A, call.B)
        return compute_call(call)

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

    @wraps(routine.ask)
    def ask(*args: Any, **options: Any) -> Call:
        call: Call = routine.ask(*args, **options)
        return call._replace(terms=change(call.terms))

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = text
    return cast(F, _computing(ask))


def unwrap(
    routine: Any, matrices: tuple[Any, ...], options: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the routine of a functools.partial object, with all of its arguments."""
    while isinstance(routine, partial):
        matrices = (*routine.args, *matrices)
        routine, options = routine.func, {**routine.keywords, **options}
    return routine, matrices, {**options}


def ask(
    routine: Any,
    matrices: tuple[Any, ...],
    options: Mapping[str, Any],
    caller: Callable[..., Any] | None = None,
) -> Call:
    """Return the call of a routine without computing it.

    `caller`: the public function whose own parameters errors name as well.

    Raises
    ------
    ArgumentError
        Unless `routine` is one of the package's, and takes these matrices and options.
    """
    function: Any = getattr(routine, "ask", None)
    if function is None:
        raise _refuse(routine, getattr(caller, "__name__", "explain"))
    check_arguments(function, matrices, options, caller)
    call: Call = function(*matrices, **options)
    return call


def _refuse(routine: Any, caller: str) -> PlanError:
    """Return the error for what is not a routine, with one to give instead."""
    if hasattr(routine, "shape") or isinstance(routine, tuple | list):
        problem = f"{caller} is given matrices alone"
        remedy = f"The routine comes first, as in td.{caller}(td.gemm, A, B)"
        return PlanError(problem, remedy, "routine")
    if isinstance(routine, str) and routine in ROUTINES:
        problem = f"{routine!r} is not one of the routines"
        return PlanError(problem, f"Give the function td.{routine}", "routine")
    name = name_routine(routine) if callable(routine) else shown(routine)
    ours = (getattr(routine, "__module__", None) or "").startswith(
        f"{__package__.split('.')[0]}."
    )
    usual = (
        "Give a function such as td.gemm, td.matmul, td.einsum, td.herk, td.zsyr2k, "
        "td.integers.gemm, td.twofold.herk or td.xarray.gemm"
    )
    remedy = _INSTEAD.get(name, usual) if ours else usual
    if isinstance(routine, partial):
        name = f"functools.partial of {name_routine(routine.func)}"
        remedy = "Give the function itself, and its arguments with the others"
    # SciPy's are told as "function zgemm". Jobs have functions of their own.
    elif caller in ("plan", "explain") and not ours and name.split()[-1] in _SAME:
        remedy = f"Give {_SAME[name.split()[-1]]}, with the same matrices"
        # Ufuncs of NumPy 2.0 have no module.
        module = "numpy" if isinstance(routine, np.ufunc) else None
        library = getattr(routine, "__module__", module) or "another library"
        name = f"{name} of {library.split('.')[0].strip('_')}"
    return PlanError(f"{name} is not one of the routines", remedy, "routine")
