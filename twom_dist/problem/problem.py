"""The problem that a call poses, checked once: the only place that checks arguments.

A `Problem` is made from arrays, or from headers: shapes that are planned with, matrices
in files. Everything that shapes, dtypes and options can tell is refused here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

import numpy as np

from ..errors import AccuracyError, ArgumentError, PlanError, shown
from ..kernels.family import Family
from ..kernels.registry import ENGINES, engine_of
from ..moduli import ResidueSystem
from ..moduli.accuracy import (
    NATIVE_METHOD,
    OLD_NATIVE_METHOD,
    choose_system,
    find_grade,
)
from ..tiles.integers import part_dtype
from ..tiles.routine import ROUTINES, Routine
from ..tiles.spec import Spec
from ..typing import Op, Uplo
from .crossover import settle_method
from .dtypes import result_dtype
from .exact import EXACT, Integers, check_pairs
from .matrices import as_matrix, check_out, check_sizes, common_family
from .pairs import as_pairs, header_of
from .scalars import as_number, check_beta, check_scalars

OPS = ("N", "T", "C")
UPLOS = ("full", "lower", "upper")
# What decides about the moduli, and who multiplies.
_ACCURACY = ("accuracy", "num_moduli", "method", "out")
OPTIONS = (*_ACCURACY, "engine")
# Of routines with two matrices: herk and syrk share the columns that it would scale. By
# default where the moduli are taken from the data: other bounds are relative to the
# norms of the rows and columns as they are given.
_EQUILIBRATE = "equilibrate"


@dataclass(frozen=True)
class Problem:
    """A checked product or update of matrices.

    Attributes
    ----------
    a, b, c : matrix
        Arrays, or whatever else has a shape and a dtype. b is a for herk and syrk; c is
        None where beta is 0.
    shape : tuple of int
        (m, n, k): op(A) is m x k and op(B) k x n.
    spec : Spec
        Everything that tasks are told; its engine is "auto" until somebody knows whose
        blocks are multiplied.
    options : mapping
        Accuracy, number of moduli and method as they were asked for.
    stack : tuple of int
        Axes in front of the matrices of the result, to which those of a, b and c
        broadcast; empty for one product.
    out : array, optional
        Where the result is written, of the shape and dtype of the result.
    """

    a: Any
    b: Any
    c: Any
    shape: tuple[int, int, int]
    spec: Spec
    options: Mapping[str, Any]
    stack: tuple[int, ...] = field(default=(), kw_only=True)
    out: Any = field(default=None, kw_only=True)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the result."""
        return np.dtype(self.spec.dtype)

    @property
    def system(self) -> ResidueSystem | None:
        """The residue system; None for the native product."""
        return None if self.spec.native else self.spec.system

    def with_engine(self, engine: str) -> Self:
        """Return the same problem for an engine."""
        # CuPy blocks are converted as they are made.
        stored = () if engine == "cuda" else self.spec.stored
        return replace(self, spec=replace(self.spec, engine=engine, stored=stored))


def of_arrays(
    routine: Routine, A: Any, B: Any, C: Any, letter: str | None, **arguments: Any
) -> Problem:
    """Pose the problem of arrays in memory or of dask arrays, as `of_headers` does."""
    family = common_family(A=A, B=B, C=C)
    a, b, c = (
        None if x is None else as_matrix(x, name)
        for x, name in ((A, "A"), (B, "B"), (C, "C"))
    )
    left, right = a, b
    if check_pairs(arguments):
        # Posed by what they are before they are viewed as numbers.
        left, right = (
            x if x is None else header_of(x, y) for x, y in ((a, "A"), (b, "B"))
        )
        a, b = (x if x is None else as_pairs(x, y) for x, y in ((a, "A"), (b, "B")))
    out = arguments.get("out")
    out = None if isinstance(out, str) else out
    if out is not None:
        arguments["out"] = None
    posed = of_headers(routine, left, right, c, letter, family, **arguments)
    if left is a and out is None:
        return posed
    if out is not None:
        shape = *posed.stack, *posed.shape[:2]
        check_out(out, (a, b, posed.c), shape, posed.dtype)
    return replace(posed, a=a, b=a if routine.matrices == 1 else b, out=out)


def of_headers(
    routine: Routine,
    A: Any,
    B: Any,
    C: Any,
    letter: str | None = None,
    family: Family | None = None,
    **arguments: Any,
) -> Problem:
    """Pose the problem of anything that has a shape and a dtype.

    B is None for herk and syrk, C where nothing is added. `letter`: that of a
    BLAS-typed name; `family`: of the blocks where that is known, which settles the
    engine; `arguments`: alpha and beta, op_a and op_b of gemm, op and uplo of an
    update, and the options. Everything that does not fit together is refused.
    """
    engine = _choose("engine", arguments.pop("engine", "auto"), ENGINES)
    engine = engine if family is None else engine_of(engine, family)
    pose: Callable[..., _Posed] = _pose
    try:
        hash(tuple(arguments.values()))
    except TypeError:
        pose = _pose.__wrapped__
    headers = (
        None if x is None else _Header(x.shape, part_dtype(x.dtype)) for x in (A, B, C)
    )
    posing = partial(pose, routine, *headers, letter, engine)
    shape, spec, options, stack = settle_method(posing, arguments)
    b, c = A if routine.matrices == 1 else B, C if spec.beta != 0 else None
    return Problem(A, b, c, shape, spec, options, stack=stack)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


# Shape, spec, options and stack of a problem.
_Posed = tuple[tuple[int, int, int], Spec, Mapping[str, Any], tuple[int, ...]]


# To pose the same problem again took a fifth of our Python's time for a small product:
# 125 us became 103 without (64 x 64, a device that does nothing; AMD EPYC, 2 cores).
@lru_cache(maxsize=1024, typed=True)
def _pose(
    routine: Routine,
    A: Any,
    B: Any,
    C: Any,
    letter: str | None,
    engine: str,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    **names: Any,
) -> _Posed:
    check_names(routine, names)
    check_matrices(routine, A, B)
    alpha, beta = as_number(alpha, "alpha"), check_beta(beta, C)
    left, right = _check_ops(routine, names)
    uplo = _choose("uplo", names.get("uplo", "full"), UPLOS)
    options = {name: x for name, x in names.items() if name in _ACCURACY}
    method = options.get("method")
    if isinstance(method, str) and method == OLD_NATIVE_METHOD:
        options["method"] = NATIVE_METHOD
    added = None if beta == 0 else C
    integers = Integers.of(names, letter, A, B, added)
    if integers is None:
        dtype = result_dtype(letter, A=A, B=B, C=added)
    else:
        dtype = integers.dtype
    check_scalars(routine, dtype, alpha, beta)
    b = A if routine.matrices == 1 else B
    shape, stack = check_sizes(routine, A, b, C, left, right)
    k = shape[2]
    words = _check_out(options.get("out"), dtype, alpha, beta)
    if integers is None:
        system = _choose_system(options, dtype, k, words)
    else:
        system = integers.choose_system(routine, options, k, alpha)
        options["accuracy"] = EXACT
    empty = 0 in shape or alpha == 0
    grade = find_grade(options)
    equilibrate = names.get(_EQUILIBRATE)
    if equilibrate is None:
        equilibrate = bool(grade) and routine.matrices == 2
    _check_equilibrate(equilibrate, system)
    spec = Spec(
        routine,
        dtype=dtype.str,
        k=k,
        method=NATIVE_METHOD if system is None else system.method,
        moduli=() if system is None else system.choice,
        op_a=left,
        op_b=right,
        alpha=alpha,
        beta=beta,
        uplo=cast(Uplo, uplo),
        words=words,
        engine=engine,
        equilibrate=bool(equilibrate) and not empty,
        grade="" if empty else grade,
        empty=empty,
        **(integers.of_spec(engine) if integers else {}),
    )
    # The cache hands the same ones to all who pose this problem.
    return shape, spec, MappingProxyType(options), stack


def find_routine(name: Any) -> Routine:
    """Return a routine by its name."""
    return ROUTINES[_choose("routine", name, tuple(ROUTINES))]


def _choose(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Accept one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(map(repr, allowed))
        raise PlanError(f"{name}={shown(value)} is not one of {choices}", "", name)
    return value


def check_names(
    routine: Routine, names: Iterable[str], caller: str = "", more: tuple[str, ...] = ()
) -> None:
    """Refuse arguments that the routine, or who calls for it, does not take.

    `more`: what the caller takes besides.
    """
    own = ("op", "uplo") if routine.triangle else ("op_a", "op_b")
    taken = (
        *more,
        *own,
        *OPTIONS,
        *([_EQUILIBRATE] if routine.matrices == 2 else []),
        "pairs",
    )
    for name in names:
        if name not in taken:
            raise ArgumentError(
                f"{caller or routine.name} takes no {name!r}",
                f"It takes {', '.join(taken)}",
                "unknown-option",
            )


def check_matrices(routine: Routine, a: Any, b: Any) -> None:
    """Refuse a matrix too many, or one too few."""
    if a is None:
        raise ArgumentError(f"{routine.name} has no A", "Pass a matrix", "no-a")
    if routine.matrices == 2 and b is None:
        raise ArgumentError(
            f"{routine.name} takes two matrices",
            "Pass B, or name a routine of one",
            "no-b",
        )
    if routine.matrices == 1 and b is not None:
        raise ArgumentError(f"{routine.name} takes one matrix", "Leave B out", "two-b")


def _check_ops(routine: Routine, names: Mapping[str, Any]) -> tuple[Op, Op]:
    """Return op_a and op_b, of an update those of the product behind it."""
    if not routine.triangle:
        left, right = (_choose(x, names.get(x, "N"), OPS) for x in ("op_a", "op_b"))
        return cast(Op, left), cast(Op, right)
    other = routine.transposed
    op = _choose("op", names.get("op", "N"), ("N", other))
    return ("N", other) if op == "N" else (other, "N")


def _check_equilibrate(value: Any, system: ResidueSystem | None) -> None:
    """Refuse what is neither yes nor no, and yes where nothing is rounded by rows."""
    if not isinstance(value, bool | np.bool_):
        problem = f"equilibrate={shown(value)} is neither True nor False"
        raise PlanError(problem, "", "equilibrate")
    if value and system is None:
        problem = "method='blas' does not scale rows, and equilibrate helps nothing"
        raise PlanError(problem, "Leave equilibrate out", "equilibrate")


def _check_out(out: Any, dtype: np.dtype[Any], alpha: complex, beta: complex) -> int:
    """Return the number of words that make an entry of the result."""
    if out is None:
        return 1
    if not isinstance(out, str) or out != "dd":
        given = repr(out) if isinstance(out, str) else f"a {type(out).__name__}"
        problem = f"out is {given}"
        remedy = "Give an array in memory, or 'dd' for two new ones, or leave it out"
        raise PlanError(problem, remedy, "out")
    if dtype.char not in "dD":
        problem = f"out='dd' is a sum of two doubles, and the product is {dtype}"
        raise PlanError(problem, "Convert the matrices to double precision", "out")
    if alpha != 1 or beta != 0:
        problem = "out='dd' is the product alone"
        raise PlanError(problem, "Leave alpha, beta and C out", "out")
    return 2


def _choose_system(
    options: Mapping[str, Any], dtype: np.dtype[Any], k: int, words: int
) -> ResidueSystem | None:
    """Return the residue system that is asked for; None is the native product."""
    method = options.get("method", "2m")
    accuracy, num_moduli = options.get("accuracy"), options.get("num_moduli")
    if not isinstance(method, str) or method != NATIVE_METHOD:
        return choose_system(method, dtype, max(k, 1), accuracy, num_moduli, words)
    if words == 2:
        problem = "method='blas' gives one double for each part"
        raise AccuracyError(problem, "Use another method, or leave out out", "out")
    named = isinstance(accuracy, str) and accuracy == "native"
    if num_moduli is not None or not (accuracy is None or named):
        raise AccuracyError(
            "method='blas' has the accuracy of the BLAS that it calls",
            "Leave accuracy and num_moduli out, or use another method",
            "native-accuracy",
        )
    return None
