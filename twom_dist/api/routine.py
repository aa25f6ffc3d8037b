"""Decorators that make public routines of functions that return a `Call`.

Such a function has the parameters and the documentation. The routine computes the call;
plans, explanations, prepared products and jobs only read the call. Updates are written
once for the rows of `ROUTINES` that differ in a conjugation, or in a matrix.
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Signature, cleandoc, signature
from typing import Any, Concatenate, TypeVar, cast

from ..errors import PlanError, shown
from ..interop import data_arrays
from ..interop.dlpack import adopt
from ..problem.arguments import check_arguments, name_routine
from ..problem.call import Call
from ..problem.dtypes import DTYPES, INTEGERS
from ..problem.integer_valued import as_integers, check_integers
from ..problem.options import show_options
from ..problem.pairs import check_told, is_stack
from ..run.prepared import compute_arrays, find_key
from ..tiles.routine import ROUTINES, Routine
from .types import Askable, LabelledOfOne, LabelledOfTwo, OfOne, OfTwo, P, Pair

F = TypeVar("F", bound=Askable)
Two = Callable[Concatenate[Any, Any, P], Call]
# Functions of updates, whose first argument is the routine.
Update = Callable[Concatenate[Routine, Any, P], Call]
UpdateOfTwo = Callable[Concatenate[Routine, Any, Any, P], Call]


def compute_call(call: Call) -> Any:
    """Compute a call, in whatever arrays it was given."""
    if call.names is not None:
        return data_arrays.apply(compute_call, call)
    key, letter = find_key(call), call.terms.letter
    whole = letter if letter in INTEGERS else None
    if whole is not None:
        check_integers(call)
    elif key is not None:
        return compute_arrays(call, key)
    arrays = call.arrays()
    found, give_back = adopt(**arrays)
    call = call.with_arrays(dict(zip(arrays, found, strict=True)))
    result = compute_arrays(call, find_key(call))
    return give_back(result if whole is None else as_integers(result, whole))


def _make_routine(ask: Callable[..., Call]) -> Any:
    show_options(ask)

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
    made.ask = ask
    return made


def _make_updates(matrices: str, build: Callable[..., Call]) -> Any:
    """Return the updates of one matrix, of two, or of both, that `build` asks for."""
    rows = (x for x in ROUTINES.values() if x.triangle and str(x.matrices) in matrices)
    return tuple(_make_routine(_ask_for(row, build)) for row in rows)


def _ask_for(row: Routine, build: Callable[..., Call]) -> Any:
    names: dict[str, Any] = {**signature(build).parameters}
    del names["routine"]
    # A function of both kinds of updates is given no B for those of one matrix.
    without = (None,) if row.matrices == 1 and names.pop("B", None) else ()

    def asking(A: Any, *args: Any, **options: Any) -> Call:
        return build(row, A, *without, *args, **options)

    ask: Any = asking
    ask.__name__ = ask.__qualname__ = row.name
    ask.__module__ = build.__module__
    ask.__signature__ = Signature([*names.values()])
    ask.__doc__ = cleandoc(build.__doc__ or "").format(**_describe(row)) + "\n"
    return ask


def _describe(row: Routine) -> dict[str, str]:
    """Return what the documentation of updates says of one, by the names there."""
    op, two = row.transposed, row.matrices == 2
    t = "^H" if row.hermitian else "^T"
    rest = row.name[2:]
    return {
        "name": row.name,
        "kind": "Hermitian" if row.hermitian else "symmetric",
        "Kind": "Hermitian" if row.hermitian else "Symmetric",
        "formula": row.formula,
        "product": f"A B{t} + B A{t}" if two else f"A A{t}",
        "matrices": "A, B" if two else "A",
        "arrays": "arrays" if two else "array",
        "partner": ("sy" if row.hermitian else "he") + rest,
        "other": row.name.replace(rest, "rk" if two else "r2k"),
        "given": "A, A[::-1]" if two else "A",
        "example": _EXAMPLES[row.name],
        "op": op,
        "t": t,
        "transpose": "conjugate transpose" if row.hermitian else "transpose",
        "alpha": "float" if row.hermitian and not two else "number",
        "beta": "float" if row.hermitian else "number",
        "real": "real " if row.hermitian else "",
        "diagonal": ", with a real diagonal" if row.hermitian else "",
    }


_EXAMPLES = {
    "herk": "array([[14.+0.j,  0.-3.j],\n       [ 0.+3.j,  1.+0.j]])",
    "syrk": "array([[ 6.+4.j,  0.+3.j],\n       [ 0.+3.j, -1.+0.j]])",
    "her2k": "array([[ 0.+0.j, 15.+0.j],\n       [15.+0.j,  0.+0.j]])",
    "syr2k": "array([[0.+6.j, 5.+4.j],\n       [5.+4.j, 0.+6.j]])",
}

# --- as type checkers see them: options go through, results are of the inputs' kind ---

of_two: Callable[[Two[P]], OfTwo[P]] = _make_routine
pair_of_two: Callable[[Callable[P, Call]], Callable[P, Pair]] = _make_routine
labelled_of_two: Callable[[Two[P]], LabelledOfTwo[P]] = _make_routine


rank_k: Callable[[Update[P]], tuple[OfOne[P], OfOne[P]]]
rank_k = partial(_make_updates, "1")
rank_2k: Callable[[UpdateOfTwo[P]], tuple[OfTwo[P], OfTwo[P]]]
rank_2k = partial(_make_updates, "2")
updates: Callable[[UpdateOfTwo[P]], tuple[OfOne[P], OfOne[P], OfTwo[P], OfTwo[P]]]
updates = partial(_make_updates, "12")
_PairOfOne = Callable[Concatenate[Any, P], Pair]
_PairOfTwo = Callable[Concatenate[Any, Any, P], Pair]
pair_updates: Callable[
    [UpdateOfTwo[P]], tuple[_PairOfOne[P], _PairOfOne[P], _PairOfTwo[P], _PairOfTwo[P]]
] = partial(_make_updates, "12")
labelled_updates: Callable[
    [UpdateOfTwo[P]],
    tuple[LabelledOfOne[P], LabelledOfOne[P], LabelledOfTwo[P], LabelledOfTwo[P]],
] = partial(_make_updates, "12")


# --- the names of BLAS ----------------------------------------------------------------


def type_by_letter(routine: F, letters: str) -> tuple[F, ...]:
    """Make the BLAS-typed names of a routine, with its signature."""
    return tuple(_type(routine, letter) for letter in letters)


def _type(routine: F, letter: str) -> F:
    name = letter + routine.__name__

    @wraps(routine.ask)
    def ask(*args: Any, **options: Any) -> Call:
        call: Call = routine.ask(*args, **options)
        return call._replace(terms=call.terms._replace(letter=letter))

    ask.__name__ = ask.__qualname__ = name
    summary, _, rest = cleandoc(routine.__doc__ or "").partition("\n")
    body = rest.partition("\nExamples\n")[0].rstrip()
    dtype, taken = DTYPES[letter], "A, A" if "B" in signature(ask).parameters else "A"
    ask.__doc__ = (
        f"{summary}\n\n`{name}` works in {dtype}, to which every input is promoted; "
        f'NumPy\'s "safe" casting\nhas to allow that.\n{body}\n\nExamples\n--------\n'
        f">>> import numpy as np, twom_dist as td\n>>> A = np.eye(2, dtype={dtype!r})\n"
        f">>> td.{name}({taken}).dtype\ndtype({dtype!r})\n"
    )
    return cast(F, _make_routine(ask))


# --- calls of routines ----------------------------------------------------------------


def ask(
    routine: Any,
    matrices: tuple[Any, ...],
    options: Mapping[str, Any],
    caller: Callable[..., Any] | None = None,
) -> Call:
    """Return the call of a routine without computing it; refuse other functions.

    `caller`: the public function whose own parameters errors name as well.
    """
    function: Any = getattr(routine, "ask", None)
    if function is None:
        raise _refuse(routine, getattr(caller, "__name__", "explain"))
    check_arguments(function, matrices, options, caller)
    call: Call = function(*matrices, **options)
    return call


def _refuse(routine: Any, caller: str) -> PlanError:
    if hasattr(routine, "shape") or isinstance(routine, tuple | list):
        problem = f"{caller} is given matrices alone"
        remedy = f"The routine comes first, as in td.{caller}(td.gemm, A, B)"
        return PlanError(problem, remedy, "routine")
    name = name_routine(routine) if callable(routine) else shown(routine)
    remedy = (
        "Give a function such as td.gemm, td.herk, td.zsyr2k, td.integers.gemm, "
        "td.twofold.herk or td.xarray.gemm"
    )
    if "contractions" in (getattr(routine, "__module__", None) or ""):
        remedy = "Give td.gemm with method='auto', which computes its products"
    return PlanError(f"{name} is not one of the routines", remedy, "routine")
