"""Weights of contractions: a vector on a contracted letter, which scales an operand.

Where the path has A and w meet first, as in "ik,k,kj->ij", they wait for B: if the
product is one of int8, gemm takes A as an operand that w scales where it is read, and
otherwise ``A * w``.
Several vectors on one letter are multiplied first.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ..problem.choice import Choice
from ..tiles.diagonal import Scaled
from .native import multiply_entries
from .pair import Weights, contract_pair, is_weighed
from .same_operand import UPDATES
from .subscripts import Term


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
        letter, terms = weights[0].letter, (x.term, y.term)
        if is_weighed(x.array, y.array, terms, kept, choice, letter):
            # A w A^H is Hermitian for real weights alone.
            updates = UPDATES[1:] if vector.dtype.kind == "c" else UPDATES
            made = Weights(partial(Scaled, diag=vector), updates)
            found = contract_pair(x.array, y.array, terms, kept, choice, weights=made)
            return Factor(found, kept)
    left, right, terms = a.apply_weight(), b.apply_weight(), (a.term, b.term)
    return Factor(contract_pair(left, right, terms, kept, choice), kept)


def join_vectors(factors: Sequence[Factor]) -> list[Factor]:
    """Multiply vectors on one letter, beside matrices: paths may leave them apart."""
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
