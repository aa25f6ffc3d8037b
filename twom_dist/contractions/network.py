"""Contractions of three or more operands, pair by pair along a path of opt_einsum's.

A vector on a contracted letter, as in "ik,k,kj->ij", is no step of the path, unless
that is given. It waits for the product of the letter: if that is one of int8, gemm
takes A as an operand that w scales where it is read, and otherwise ``A * w``. Several
vectors on one letter are multiplied first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
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


class Factor(NamedTuple):
    """An operand of a network, or the product of some."""

    array: Any
    term: Term


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
        Factor(reduce_operand(promoted[id(x)], reduction), reduction.term)
        for x, reduction in zip(operands, reductions, strict=True)
    ]
    weights: dict[str, Any] = {}
    if not isinstance(_read(optimize)[0], list | tuple):
        left, weights = _take_weights(operands, left, output)
    shapes = tuple(x.array.shape for x in left)
    for positions in find_path(tuple(x.term for x in left), output, shapes, optimize):
        taken = [left.pop(i) for i in sorted(positions, reverse=True)][::-1]
        x = taken[0]
        for step, y in enumerate(taken[1:], 2):
            beside = [t.term for t in (*left, *taken[step:])]
            kept = _kept(x.term, y.term, {*output}.union(*beside))
            kept = kept if beside else output
            x = join(x, y, kept, output, choice, weights)
        left.append(x)
    (x,) = left
    return x.array if x.term == output else reduce_to(x.array, x.term, output)


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


def join(
    a: Factor,
    b: Factor,
    kept: Term,
    output: Term,
    choice: Choice,
    weights: Mapping[str, Any],
) -> Factor:
    """Contract two factors of a network; only letters in `output` are kept to the end.

    A weight scales the left side of the product that contracts its letter, which is the
    rows of the result.
    """
    gone = [t for t in a.term if t in weights and t in b.term and t not in kept]
    if len(gone) == 1:
        # The left side has the letter that comes first in the result.
        alone = [x in a.term for x in output if (x in a.term) != (x in b.term)]
        x, y = (a, b) if [*alone, True][0] else (b, a)
        own, terms = (gone[0], weights[gone[0]]), (x.term, y.term)
        found = contract_pair(x.array, y.array, terms, kept, choice, weights=own)
        if found is not None:
            return Factor(found, kept)
    left = a.array
    for letter in gone:
        vector = weights[letter].astype(left.dtype)
        left = multiply_entries(left, vector, (a.term, (letter,)), a.term)
    found = contract_pair(left, b.array, (a.term, b.term), kept, choice)
    return Factor(found, kept)


def _take_weights(
    operands: Sequence[Any], factors: Sequence[Factor], output: Term
) -> tuple[list[Factor], dict[str, Any]]:
    """Take vectors on contracted letters, which two matrices have, out of a network."""
    matrices = Counter(t for x in factors if len(x.term) > 1 for t in x.term)
    rest: list[Factor] = []
    weights: dict[str, Any] = {}
    for x, own in zip(operands, factors, strict=True):
        letter = own.term[0] if x.ndim == len(own.term) == 1 else ""
        if matrices[letter] > 1 and letter not in output:
            dtype = own.array.dtype
            # Integers are converted as all other operands, but to real numbers.
            w = x if x.dtype.kind in "fc" else x.astype(dtype.char.lower())
            if letter in weights:
                # In the precision of the result; real ones stay real.
                v, precision = weights[letter], np.empty(0, dtype).real.dtype
                w = np.multiply(v, w, dtype=np.result_type(v, w, precision))
            weights[letter] = w
        else:
            rest.append(own)
    return rest, weights
