"""Contractions of three or more operands, pair by pair along a path of opt_einsum's.

A vector on a contracted letter scales an operand. Where the path has A and w meet
first, as in "ik,k,kj->ij", they wait for B: if the product is one of int8, gemm takes A
as an operand that w scales where it is read, and otherwise ``A * w``. Several vectors
on one letter are multiplied first.
"""

from collections.abc import Sequence
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ..errors import PlanError, shown
from ..problem.choice import Choice
from .arrays import reduce_operand, reduce_to
from .pair import contract_pair, multiply_entries
from .subscripts import Sizes, Term, reduce_each

# Each step lists positions, among the operands left, that it contracts; its result is
# put last, as in paths of opt_einsum and NumPy.
Steps = Sequence[Sequence[int]]


class Weight(NamedTuple):
    """A vector that its operand is yet to be multiplied by."""

    letter: str  # the axis of the operand that it weighs
    vector: Any  # of real numbers, if they are: gemm tells these from complex ones
    arrays: tuple[Any, ...]  # those that it is the product of, in its dtype


class Factor(NamedTuple):
    """An operand of a network, or the product of some."""

    array: Any
    term: Term
    # An operand of one axis before its dtype was promoted, but for integers.
    vector: Any = None
    weight: Weight | None = None  # what the array is yet to be multiplied by

    def apply_weight(self) -> Any:
        """Return the array, multiplied by its weight."""
        found = self.array
        if self.weight is not None:
            terms = self.term, (self.weight.letter,)
            for vector in self.weight.arrays:
                found = multiply_entries(found, vector, terms, self.term)
        return found


def contract_network(
    operands: Sequence[Any],
    terms: tuple[Term, ...],
    output: Term,
    optimize: Any,
    choice: Choice,
    dtype: np.dtype[Any],
) -> Any:
    """Contract operands along a path that is found, or given.

    `dtype`: that of the result, to which all are promoted, except weights of gemm.
    """
    shapes = tuple(x.shape for x in operands)
    reductions = reduce_each(terms, output, shapes)
    # An operand that is given twice stays one, and so may make an update.
    promoted = {id(x): x.astype(dtype, copy=False) for x in operands}
    left = [
        Factor(
            reduce_operand(promoted[id(x)], reduction),
            reduction.term,
            _as_vector(x, dtype) if x.ndim == 1 and reduction.empty else None,
        )
        for x, reduction in zip(operands, reductions, strict=True)
    ]
    how, _ = _read(optimize)
    if not (how is False or isinstance(how, list | tuple)):
        left = join_vectors(left)
    shapes = tuple(x.array.shape for x in left)
    for positions in find_path(tuple(x.term for x in left), output, shapes, optimize):
        taken = [left.pop(i) for i in sorted(positions, reverse=True)][::-1]
        x = taken[0]
        for step, y in enumerate(taken[1:], 2):
            beside = [t.term for t in (*left, *taken[step:])]
            kept = _kept(x.term, y.term, {*output}.union(*beside))
            x = join(x, y, kept if beside else output, output, choice)
        left.append(x)
    (x,) = left
    return x.array if x.term == output else reduce_to(x.array, x.term, output)


def _as_vector(x: Any, dtype: np.dtype[Any]) -> Any:
    """Convert integers, as all other operands, but to real numbers."""
    return x if x.dtype.kind in "fc" else x.astype(dtype.char.lower())


def _kept(a: Term, b: Term, wanted: set[str]) -> Term:
    """Return the letters of a pair's product: those that are wanted, in its order."""
    batch = [x for x in a if x in b]
    letters = (*batch, *(x for x in a if x not in b), *(x for x in b if x not in a))
    return tuple(x for x in letters if x in wanted)


def find_path(
    terms: tuple[Term, ...], output: Term, shapes: tuple[Sizes, ...], optimize: Any
) -> Steps:
    """Have opt_einsum find a path, or check one that is given."""
    how, limit = _read(optimize)
    # Optimizers may find a better path each time.
    search = _search if isinstance(how, str) else _search.__wrapped__
    try:
        path = search(terms, output, shapes, how, limit)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        text = f"opt_einsum does not understand optimize={shown(optimize)} ({error})"
        remedy = "Give 'greedy', a path in its form, True or False"
        raise PlanError(text, remedy, "path") from None
    if (rest := len(terms) - sum(len(step) - 1 for step in path)) != 1:
        text = f"the path optimize={shown(optimize)} leaves {rest} operands, not one"
        raise PlanError(text, "Give a path in the form of opt_einsum", "path")
    return path


def _read(optimize: Any) -> tuple[Any, Any]:
    """Read NumPy's forms: the path of its einsum_path, and a way with its limit."""
    if isinstance(optimize, list | tuple) and len(optimize) > 1:
        first, *more = optimize
        if first == "einsum_path":
            return more, None
        if isinstance(first, str) and len(more) == 1:
            return first, more[0]
    return optimize, None


@lru_cache(maxsize=256)
def _search(
    terms: tuple[Term, ...],
    output: Term,
    shapes: tuple[Sizes, ...],
    how: Any,
    limit: Any,
) -> Steps:
    from opt_einsum import contract_path

    # The last character of an axis of an ellipsis is a letter of its own.
    texts = ["".join(x[-1] for x in term) for term in (*terms, output)]
    equation = f"{','.join(texts[:-1])}->{texts[-1]}"
    given = {"shapes": True, "optimize": how, "memory_limit": limit}
    path: Steps = contract_path(equation, *shapes, **given)[0]
    return path


def join(a: Factor, b: Factor, kept: Term, output: Term, choice: Choice) -> Factor:
    """Contract two factors of a network; only letters in `output` are kept to the end.

    A vector waits with the factor that it weighs, and a factor with a weight takes it
    to its product. That scales its left side, which is the rows of the result.
    """
    if a.vector is not None and b.vector is not None and a.term == b.term == kept:
        return _join_two(a, b)
    for x, vector in ((a, b), (b, a)):
        if _is_weight(vector, x, kept, output):
            return _attach(x, vector)
    weights = [x.weight for x in (a, b) if x.weight is not None]
    if len({x.letter for x in weights}) == 1:
        vectors = (x.vector for x in weights)
        vector = reduce(partial(_multiply, x=a), vectors)
        x, y = (b, a) if _is_turned(a.term, b.term, output) else (a, b)
        own = weights[0].letter, vector
        terms = x.term, y.term
        found = contract_pair(x.array, y.array, terms, kept, choice, weights=own)
        if found is not None:
            return Factor(found, kept)
    left, right, terms = a.apply_weight(), b.apply_weight(), (a.term, b.term)
    return Factor(contract_pair(left, right, terms, kept, choice), kept)


def join_vectors(factors: Sequence[Factor]) -> list[Factor]:
    """Multiply vectors on one letter besides matrices: paths may leave them apart."""
    if all(len(x.term) < 2 for x in factors):
        return [*factors]
    found: dict[Any, Factor] = {}
    for i, x in enumerate(factors):
        key = i if x.vector is None else x.term
        found[key] = _join_two(found[key], x) if key in found else x
    return [*found.values()]


def _join_two(a: Factor, b: Factor) -> Factor:
    product = _multiply(a.vector, b.vector, x=a)
    return Factor(a.array * b.array, a.term, product)


def _is_weight(vector: Factor, x: Factor, kept: Term, output: Term) -> bool:
    """Tell whether a vector weighs a letter of x that is contracted later."""
    letters = vector.term
    if vector.vector is None or len(letters) != 1:
        return False
    if x.weight is not None and x.weight.letter != letters[0]:
        return False
    later = letters[0] in kept and letters[0] not in output
    return later and len(x.term) > 1 and {*kept} == {*x.term}


def _is_turned(a: Term, b: Term, output: Term) -> bool:
    """Tell whether the letters of b alone come before those of a in the result."""
    alone = [x in a for x in output if (x in a) != (x in b)]
    return bool(alone) and not alone[0]


def _attach(x: Factor, vector: Factor) -> Factor:
    weights, arrays = vector.vector, (vector.array,)
    if x.weight is not None:
        weights = _multiply(x.weight.vector, weights, x=x)
        arrays = (*x.weight.arrays, *arrays)
    return Factor(x.array, x.term, weight=Weight(vector.term[0], weights, arrays))


def _multiply(v: Any, w: Any, *, x: Factor) -> Any:
    """Multiply two vectors in the precision of the result; real ones stay real."""
    precision = np.empty(0, x.array.dtype).real.dtype
    v, w = (y.astype(np.result_type(y, precision)) for y in (v, w))
    return v * w
