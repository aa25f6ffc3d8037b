"""Contractions of three or more operands, pair by pair along a path of opt_einsum's."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import PlanError, shown
from ..problem.choice import Choice
from .arrays import reduce_operand, reduce_to
from .subscripts import Sizes, Term, reduce_each
from .weights import Factor, join, join_vectors

# Each step lists positions, among the operands left, that it contracts; its result is
# put last, as in paths of opt_einsum and NumPy.
Steps = Sequence[Sequence[int]]


def contract_network(
    operands: Sequence[Any],
    terms: tuple[Term, ...],
    output: Term,
    optimize: Any,
    choice: Choice,
    dtype: np.dtype[Any],
) -> Any:
    """Contract operands along a path that is found, or given.

    `dtype`: that of the result, to which all are promoted, but for weights of gemm.
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
        text = f"opt_einsum takes no optimize={shown(optimize)} ({error})"
        remedy = "Give 'greedy', a path in its form, True or False"
        raise PlanError(text, remedy, "path") from None
    if (rest := len(terms) - sum(len(step) - 1 for step in path)) != 1:
        text = f"the path leaves {rest} operands"
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
    path: Steps
    path, _ = contract_path(
        equation, *shapes, shapes=True, optimize=how, memory_limit=limit
    )
    return path
