"""Contractions of three or more operands, pair by pair along a path."""

import sys
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, combinations
from math import prod
from typing import Any

import numpy as np

from ..errors import EngineUnavailableError, PlanError, shown, spell_install
from ..problem.choice import Choice
from ..typing import as_integer
from .arrays import promote, reduce_operand, reduce_to
from .letters import Sizes, Term, find_sizes, reduce_each
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
    promoted = {id(x): promote(x, dtype) for x in operands}
    left = [
        Factor(
            reduce_operand(promoted[id(x)], reduction),
            reduction.term,
            _as_vector(x, dtype) if x.ndim == 1 and reduction.empty else None,
        )
        for x, reduction in zip(operands, reductions, strict=True)
    ]
    path = read_path(optimize, len(left))
    if path is None:
        left = join_vectors(left)
        path = _find_path([(x.array, x.term) for x in left], output, optimize)
        _check_path(path, len(left))
    for positions in path:
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
    return x if x.dtype.kind in "fc" else promote(x, np.dtype(dtype.char.lower()))


def _kept(a: Term, b: Term, wanted: set[str]) -> Term:
    """Return the letters of a pair's product: those that are wanted, in its order."""
    batch = [x for x in a if x in b]
    letters = (*batch, *(x for x in a if x not in b), *(x for x in b if x not in a))
    return tuple(x for x in letters if x in wanted)


def read_path(optimize: Any, count: int) -> Steps | None:
    """Return the path that is asked for, or None if one is to be found."""
    if optimize is False:
        return _in_order(count)
    if isinstance(optimize, list | tuple):
        given = optimize[1:] if "einsum_path" in optimize[:1] else optimize
        if all(isinstance(step, list | tuple) for step in given):
            _check_path(given, count)
            return given
    how, _ = _read_limit(optimize)
    if not (how is None or how is True or isinstance(how, str) or callable(how)):
        problem = f"optimize={shown(optimize)} is no path, nor a way to find one"
        raise PlanError(problem, "Give 'greedy', a path, True or False", "path")
    return None


def _read_limit(optimize: Any) -> tuple[Any, int | None]:
    """Return how a path is found, and how many entries its products may have."""
    if isinstance(optimize, list | tuple) and len(optimize) == 2:
        how, limit = optimize
        if isinstance(how, str) and isinstance(limit, int | float) and limit >= 1:
            return how, int(min(limit, sys.maxsize))
    return optimize, None


def _find_path(left: Sequence[tuple[Any, Term]], output: Term, optimize: Any) -> Steps:
    if len(left) == 2:
        return _in_order(2)
    terms, shapes = tuple(t for _, t in left), tuple(x.shape for x, _ in left)
    optimize = "auto" if optimize is True or optimize is None else optimize
    if optimize == "auto" and len(terms) == 3:
        return _order_three(terms, output, shapes)
    if isinstance(optimize, str):
        return _remembered(terms, output, shapes, optimize)
    return _search(terms, output, shapes, optimize)


def _in_order(count: int) -> Steps:
    return [(0, 1), *((0, last) for last in range(count - 2, 0, -1))]


@lru_cache(maxsize=256)
def _order_three(
    terms: tuple[Term, ...], output: Term, shapes: tuple[Sizes, ...]
) -> Steps:
    """Take the pair first that costs the fewest operations, as opt_einsum does."""
    sizes = find_sizes(terms, shapes)

    def count(a: Term, b: Term, wanted: Term) -> int:
        both = {*a, *b}
        return prod(sizes[x] for x in both) * (1 if both <= {*wanted} else 2)

    def count_both(pair: tuple[int, int]) -> int:
        a, b = (terms[i] for i in pair)
        (c,) = (x for i, x in enumerate(terms) if i not in pair)
        kept = _kept(a, b, {*c, *output})
        return count(a, b, (*c, *output)) + count(kept, c, output)

    return [min(combinations(range(3), 2), key=count_both), (0, 1)]


def _search(
    terms: tuple[Term, ...], output: Term, shapes: tuple[Sizes, ...], optimize: Any
) -> Steps:
    """Have opt_einsum find a path."""
    try:
        import opt_einsum
    except ImportError:
        raise EngineUnavailableError(
            "paths of more than three operands, and by name, are found by opt_einsum",
            f"Run {spell_install('einsum')}; or give a path, or optimize=False",
            "no-opt-einsum",
        ) from None
    letters = dict.fromkeys(chain(*terms))
    names = {x: opt_einsum.get_symbol(i) for i, x in enumerate(letters)}
    texts = ["".join(names[x] for x in term) for term in (*terms, output)]
    equation = f"{','.join(texts[:-1])}->{texts[-1]}"
    how, limit = _read_limit(optimize)
    try:
        path, _ = opt_einsum.contract_path(
            equation, *shapes, shapes=True, optimize=how, memory_limit=limit
        )
    except (KeyError, TypeError, ValueError) as error:
        text = f"opt_einsum finds no path with optimize={optimize!r} ({error})"
        raise PlanError(text, "", "path") from None
    found: Steps = path
    return found


_remembered = lru_cache(maxsize=256)(_search)


def _check_path(path: Steps, count: int) -> None:
    """Refuse a path that does not lead to one result."""
    for step in path:
        positions = {as_integer(i) for i in step}
        whole = all(i is not None and 0 <= i < count for i in positions)
        if not whole or len(positions) != len(step) or not step:
            text = f"the step {tuple(step)} of the path does not fit {count} operands"
            break
        count -= len(step) - 1
    else:
        if count == 1:
            return
        text = f"the path leaves {count} operands"
    raise PlanError(text, "Give a path in the form of opt_einsum", "path")
