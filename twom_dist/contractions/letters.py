"""Letters of a contraction: which are kept, contracted, or summed in one operand."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from ..errors import PlanError

Sizes = tuple[int, ...]
# Letters of the axes of an operand: any texts that tell axes apart. Those of einsum are
# one character, behind "..." if they stand for an axis of an ellipsis.
Term = tuple[str, ...]


class Reduction(NamedTuple):
    """Reduction of one operand before it is multiplied.

    Attributes
    ----------
    diagonals : pairs of axes
        Taken one after the other; a diagonal comes last, as NumPy has it.
    dropped, summed : axes
        Axes, after diagonals are taken and before any axis is removed: those of one
        entry where other operands have more, and those whose letters nothing else has.
    term : letters
        What is left.
    """

    diagonals: tuple[tuple[int, int], ...]
    dropped: tuple[int, ...]
    summed: tuple[int, ...]
    term: Term

    @property
    def empty(self) -> bool:
        """True if the operand stays as it is."""
        return not (self.diagonals or self.dropped or self.summed)


def find_sizes(terms: Sequence[Term], shapes: Sequence[Sizes]) -> dict[str, int]:
    """Find the size of each letter, or say for which letter sizes differ.

    An axis of one entry stands for an axis of any size, as in NumPy.
    """
    sizes: dict[str, int] = {}
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True), 1):
        own = dict(zip(term, shape, strict=True))
        for letter, size in zip(term, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if own[letter] != size or (size != known and 1 not in (size, known)):
                other = known if own[letter] == size else own[letter]
                name = "an ellipsis" if len(letter) > 1 else f"the letter {letter!r}"
                text = f"{name} has the sizes {other} and {size} (operand {position})"
                raise PlanError(text, "", "letter-sizes")
            if known == 1:
                sizes[letter] = size
    return sizes


@lru_cache(maxsize=4096)
def reduce_each(
    terms: tuple[Term, ...], output: Term, shapes: tuple[Sizes, ...]
) -> tuple[Reduction, ...]:
    """Find the reduction of each operand that precedes a product."""
    sizes = find_sizes(terms, shapes)
    straight = [_find_diagonals(term) for term in terms]
    # Letters that are broadcast, where other operands have more than an entry.
    single = [
        {x for x, size in zip(term, shape, strict=True) if size == 1 != sizes[x]}
        for term, shape in zip(terms, shapes, strict=True)
    ]
    left = [
        [x for x in term if x not in ones]
        for (_, term), ones in zip(straight, single, strict=True)
    ]
    counts = Counter(chain(output, *left))
    return tuple(
        Reduction(
            diagonals,
            tuple(axis for axis, x in enumerate(term) if x in ones),
            tuple(
                axis for axis, x in enumerate(term) if x not in ones and counts[x] == 1
            ),
            tuple(x for x in kept if counts[x] > 1),
        )
        for (diagonals, term), ones, kept in zip(straight, single, left, strict=True)
    )


def _find_diagonals(term: Term) -> tuple[tuple[tuple[int, int], ...], Term]:
    """Find diagonals, and the letters after they are taken."""
    letters, diagonals = list(term), []
    for letter in dict.fromkeys(term):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            diagonals.append((first, second))
            del letters[second], letters[first]
            letters.append(letter)
    return tuple(diagonals), tuple(letters)
