"""The problem that a call poses, checked once: the only place that checks matrices.

A `Problem` is made from arrays, or from headers: of plans, or of matrices in files.
Whatever is wrong with shapes, dtypes and options is refused here.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from ..errors import (
    AccuracyError,
    AccuracyWarning,
    ArgumentError,
    PlanError,
    TwomError,
    warn_caller,
)
from ..kernels.family import Family, family_of
from ..kernels.registry import engine_of
from ..moduli import ResidueSystem
from ..moduli.accuracy import AUTO_METHOD, NATIVE_METHOD, choose_system, counted_system
from ..tiles.diagonal import Scaled, check_diagonal, scaled_row, scaling_by
from ..tiles.routine import Routine
from ..tiles.rows import Row
from ..tiles.spec import Spec
from ..typing import Array, Op, Uplo
from .call import Call, Terms
from .choice import Bound, Choice, Exact, Moduli, choose
from .dtypes import INTEGERS, as_number, check_beta, check_scalars, result_dtype
from .exact import Integers, stored_tiles
from .integer_valued import check_lazily, outline_integers
from .matrices import (
    as_array,
    as_matrix,
    check_out,
    common_family,
    is_dask,
    outline,
)
from .pairs import as_pairs, header_of
from .sizes import check_sizes

# Three digits, relative to the norms, take 4 + 2 log2(1000) bits.
_FEWEST_BITS = 23.9
OPS: tuple[Op, ...] = ("N", "T", "C")
UPLOS: tuple[Uplo, ...] = ("full", "lower", "upper")


@dataclass(frozen=True)
class Problem:
    """A checked product of matrices."""

    # Arrays, or whatever else has a shape and a dtype. b is a for herk and syrk; c is
    # None where beta is 0.
    a: Any
    b: Any
    c: Any
    shape: tuple[int, int, int]  # (m, n, k): op(A) is m x k and op(B) k x n
    spec: Spec  # what tasks are told; its engine is "auto" until the family is known
    choice: Choice  # what was asked for; its method is settled, and not "auto"
    # Axes in front of the matrices of the result, to which those of a, b and c
    # broadcast; empty for one product.
    stack: tuple[int, ...] = field(default=(), kw_only=True)
    # Where the result is written, of the shape and dtype of the result.
    out: Any = field(default=None, kw_only=True)
    # The diagonal between op(A) and op(B); None where it is the identity.
    diag: Any = field(default=None, kw_only=True)
    # Dtype of integers, or pairs of them, that a product of one tile returns, or "".
    integers: str = field(default="", kw_only=True)

    @property
    def matrices(self) -> tuple[Any, ...]:
        """Whatever is read."""
        return self.a, self.b, self.c, self.diag

    def row(self, a: Array) -> Row:
        """Return A, of the dtype that engines take, as a row of one tile."""
        if self.diag is None:
            return Row("left", [a])
        return scaled_row(a, self.diag, self.spec)

    def scaling(self) -> Callable[[Array], Array] | None:
        """Return what scales A, or matrices of a stack; None if nothing does."""
        return None if self.diag is None else scaling_by(self.diag, self.spec)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the result."""
        return np.dtype(self.spec.dtype)

    @property
    def system(self) -> ResidueSystem | None:
        """The residue system; None for the native product."""
        return None if self.spec.native else self.spec.system

    @property
    def limits(self) -> tuple[int, int]:
        """Largest magnitudes that A and B may have in an exact product."""
        integers = Integers.of(self.a, self.b, self.choice)
        assert integers is not None
        return integers.find_magnitudes(self.spec.routine, self.spec.k)

    def with_engine(self, engine: str) -> Self:
        """Return the same problem for an engine."""
        stored = stored_tiles(self.spec.stored, engine, self.system)
        return replace(self, spec=replace(self.spec, engine=engine, stored=stored))


def of_arrays(call: Call) -> Problem:
    """Pose the problem of arrays in memory or of dask arrays, as `of_headers` does."""
    choice, one, out = call.terms.choice, call.terms.routine.matrices == 1, call.out
    a, diag = call.A if isinstance(call.A, Scaled) else (call.A, None)
    families: dict[str, Any] = {"A": a, "B": call.B, "C": call.C}
    if diag is not None and family_of(getattr(diag, "_meta", diag)) == "cupy":
        families["diag"] = diag  # on the host it serves all blocks
    family = common_family(**families)
    a, b, c = (
        None if x is None else as_matrix(x, name)
        for x, name in ((a, "A"), (call.B, "B"), (call.C, "C"))
    )
    diag = None if diag is None else as_array(diag, "diag")
    left, right = a, b
    if isinstance(choice.target, Exact):
        left, right = (describe(choice, x, y) for x, y in ((a, "A"), (b, "B")))
    posed = _of_matrices(call.terms, (left, right, c, diag), family)
    if posed.c is None and is_dask(c):
        # With beta = 0, C is not read, but a dask C still makes the result lazy.
        posed = replace(posed, spec=replace(posed.spec, lazy=True))
    if left is a and right is b and out is None:
        return posed
    if choice.pairs:
        kinds = posed.spec.stored or (None, None)
        a, b = (
            x if x is None else as_pairs(x, name, kind)
            for x, name, kind in zip((a, b), "AB", kinds, strict=True)
        )
    elif posed.spec.exact:
        limits = posed.limits
        a, b = (
            x if x is None else check_lazily(x, y, limit)
            for x, y, limit in zip((a, b), "AB", limits, strict=True)
        )
    if isinstance(out, str):
        problem, remedy = f"out is {out!r}", "Give an array in memory, or leave it out"
        raise PlanError(problem, remedy, "out")
    if out is not None:
        if posed.spec.components == 2:
            problem = "out is one array, but the result is two"
            raise PlanError(problem, "Omit the argument out", "out")
        shape = *posed.stack, *posed.shape[:2]
        check_out(out, (a, b, posed.c, diag), shape, posed.dtype)
    spec, letter = posed.spec, call.terms.letter or ""
    lazy = spec.lazy or any(map(is_dask, (a, b, posed.c)))
    at_once = letter in INTEGERS and spec.engine == "cuda" and not lazy
    at_once = at_once and spec.system.wraps and not spec.routine.sums
    integers = letter if at_once else ""
    return replace(posed, a=a, b=a if one else b, out=out, integers=integers)


def describe(choice: Choice, x: Any, name: str) -> Any:
    """Return what an array is posed by: an exact product by its integers."""
    if x is None or not isinstance(choice.target, Exact):
        return x
    return header_of(x, name) if choice.pairs else outline_integers(x, name)


def of_headers(call: Call, family: Family | None = None) -> Problem:
    """Pose the problem of anything that has a shape and a dtype.

    B is None for herk and syrk, C where nothing is added. `family`: that of the blocks
    if it is known, which settles the engine. Whatever does not fit together is refused.
    """
    A, diag = call.A if isinstance(call.A, Scaled) else (call.A, None)
    return _of_matrices(call.terms, (A, call.B, call.C, diag), family)


def _of_matrices(terms: Terms, matrices: Any, family: Family | None) -> Problem:
    A, B, C, diag = matrices
    engine: str = terms.choice.engine
    engine = engine if family is None else engine_of(engine, family)
    headers = [None if x is None else outline(x) for x in matrices]
    choice = terms.choice
    if choice.method == AUTO_METHOD:
        terms = terms._replace(choice=choice.by_int8())
    found = _look_up(terms, engine, *headers)
    about = engine, terms.routine.name, found.spec.dtype, found.shape
    if choice.method == AUTO_METHOD and choice.is_native(*about):
        terms = terms._replace(choice=replace(choice, method=NATIVE_METHOD))
        found = _look_up(terms, engine, *headers)
    if choice.few and found.spec.system.modulus_bits < _FEWEST_BITS:
        text = f"{choice.target} keeps less than three digits"
        warn_caller(text, AccuracyWarning)
    right = A if terms.routine.matrices == 1 else B
    added = C if found.spec.beta != 0 else None
    return replace(found, a=A, b=right, c=added, diag=diag)


def _look_up(terms: Terms, *engine_and_headers: Any) -> Problem:
    """Pose a problem, from the cache unless a scalar is an array, which has no hash."""
    try:
        return _pose(terms, *engine_and_headers)
    except TwomError:
        raise
    except TypeError:
        return _pose.__wrapped__(terms, *engine_and_headers)


# Posing the same problem again took a fifth of our Python's time for a small product:
# 125 us became 103 without (64 x 64, a device that does nothing; AMD EPYC, 2 cores).
# The result is immutable, since all who pose the problem share it.
@lru_cache(maxsize=1024)
def _pose(terms: Terms, engine: str, A: Any, B: Any, C: Any, diag: Any) -> Problem:
    routine, choice = terms.routine, terms.choice
    check_matrices(routine, A, B)
    alpha = as_number(terms.alpha, "alpha")
    beta = check_beta(routine, terms.beta, C)
    op_a, op_b = _check_ops(routine, terms.ops)
    uplo = choose("uplo", terms.uplo, UPLOS)
    integers = Integers.of(A, B, choice)
    letter = integers.choose_letter(terms.letter) if integers else terms.letter
    # An exact product is rounded to any dtype, whatever its integers are.
    matrices = {} if integers else {"A": A, "B": B}
    dtype = result_dtype(letter, **matrices, C=None if beta == 0 else C, diag=diag)
    check_scalars(routine, dtype, alpha, beta)
    b = A if routine.matrices == 1 else B
    shape, stack = check_sizes(routine, A, b, C, op_a, op_b)
    entries = diag and check_diagonal(routine, diag, shape[2], dtype)
    if choice.components == 2 and dtype.char not in "dD":
        problem = f"twice the digits are those of double precision, not of {dtype}"
        remedy = "Convert the matrices with astype"
        raise PlanError(problem, remedy, "twofold-dtype")
    k = shape[2]
    if integers is None:
        system = _choose_system(choice, dtype, max(k, 1))
    else:
        system = integers.choose_system(routine, choice.method, k, terms.letter)
    empty = 0 in shape or alpha == 0
    equilibrate = choice.equilibrate
    if equilibrate and routine.matrices == 1 and diag is None:
        problem = f"equilibrate has no effect on {routine.name} without diag"
        raise PlanError(problem, "Leave it out", "equilibrate")
    if equilibrate is None:
        # By default where the moduli are taken from the data: other bounds are relative
        # to the norms of the rows and columns as they are given.
        equilibrate = choice.data_driven
    spec = Spec(
        routine,
        dtype=dtype.str,
        k=k,
        method=NATIVE_METHOD if system is None else system.method,
        moduli=() if system is None else system.choice,
        op_a=op_a,
        op_b=op_b,
        alpha=alpha,
        beta=beta,
        uplo=uplo,
        components=choice.components,
        engine=engine,
        # In herk and syrk both operands share the columns that it would scale, unless
        # one of them is scaled already.
        equilibrate=equilibrate and bool(routine.matrices == 2 or diag) and not empty,
        data_driven=choice.data_driven and not empty,
        empty=empty,
        diag=entries or "",
        **(integers.of_spec(engine, system) if integers else {}),
    )
    return Problem(None, None, None, shape, spec, choice, stack=stack)


def check_matrices(routine: Routine, a: Any, b: Any) -> None:
    """Refuse one matrix too many, or too few."""
    name = routine.name
    if a is None:
        raise ArgumentError(f"A of {name} is missing", "", "no-a")
    if routine.matrices == 2 and b is None:
        raise ArgumentError(f"B of {name} is missing", "", "no-b")
    if routine.matrices == 1 and b is not None:
        problem = f"{name} multiplies A by itself, but B was given"
        raise ArgumentError(problem, "Leave B out, or call gemm", "two-b")


def _check_ops(routine: Routine, ops: tuple[Op, ...]) -> tuple[Op, Op]:
    """Return op_a and op_b; for an update, those of its product."""
    if not routine.triangle:
        left, right = ops or ("N", "N")
        return choose("op_a", left, OPS), choose("op_b", right, OPS)
    other = routine.transposed
    (given,) = ops or ("N",)
    if isinstance(given, str) and given in OPS and given not in ("N", other):
        kin = ("syr" if routine.hermitian else "her") + routine.name[3:]
        problem = f"{routine.name} takes op='N' or {other!r}, not {given!r}"
        remedy = f"Use {kin}, which takes {given!r}"
        if routine.hermitian:
            # With samples as (time, antenna) the first is meant.
            remedy = (
                "For A^T with a conjugate on the right take the conjugate of what "
                f"op='C' gives; without any conjugate call {kin}"
            )
        raise PlanError(problem, remedy, "op")
    op = choose("op", given, ("N", other))
    return ("N", other) if op == "N" else (other, "N")


def _choose_system(choice: Choice, dtype: Any, k: int) -> ResidueSystem | None:
    """Return the residue system that is requested; None is the native product."""
    method, target = choice.method, choice.target
    if method == NATIVE_METHOD:
        return None
    if isinstance(target, Moduli):
        return counted_system(method, dtype, k, target.count)
    assert not isinstance(target, Exact)
    accuracy = target.eps if isinstance(target, Bound) else target
    return choose_system(method, dtype, k, accuracy, choice.components)


def check_possible(choice: Choice) -> None:
    """Refuse options that no product of complex nor of real numbers has."""
    choice = choice.by_int8()
    try:
        _choose_system(choice, np.dtype("complex128"), 1)
    except AccuracyError:
        with suppress(AccuracyError):
            _choose_system(choice, np.dtype("float64"), 1)
            return
        raise
