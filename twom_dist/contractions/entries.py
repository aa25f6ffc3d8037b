"""Products entry by entry: where nothing is summed, and of views with vectors."""

from typing import Any

import numpy as np

from .arrays import is_repeated, permute
from .layout import FusedSide, PairLayout
from .letters import Term

# np.einsum's numbers of axes.
_MOST_LETTERS = 52


def multiply_entries(a: Any, b: Any, left: Term, right: Term, output: Term) -> Any:
    """Multiply entries where no letter is contracted."""
    x, y = (
        permute(x, tuple(term.index(t) for t in output if t in term))[
            tuple(slice(None) if t in term else None for t in output)
        ]
        for x, term in ((a, left), (b, right))
    )
    return x * y


def repeats_for_vector(a: Any, b: Any, layout: PairLayout) -> bool:
    """Tell a product with vectors that would copy a view larger than its memory.

    Such are windows that slide, and arrays that are broadcast.
    """
    if 1 not in layout.shape[:2] or a.dtype != b.dtype:
        return False
    if len({*layout.left.term, *layout.right.term}) > _MOST_LETTERS:
        return False
    sides = (a, layout.left), (b, layout.right)
    return any(_is_fused(side) and is_repeated(x) for x, side in sides)


def _is_fused(side: FusedSide) -> bool:
    return len(side.axes) != len(side.shape)


def sum_views(a: Any, b: Any, terms: tuple[Term, Term], output: Term) -> Any:
    """Sum products of views entry by entry, without a copy."""
    numbers = {x: i for i, x in enumerate(dict.fromkeys((*terms[0], *terms[1])))}
    left, right, result = ([numbers[x] for x in term] for term in (*terms, output))
    # As fast as a product of matrices with a vector, which reads each entry once, too.
    return np.einsum(a, left, b, right, result)
