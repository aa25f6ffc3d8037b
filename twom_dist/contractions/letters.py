"""Letters of a contraction: which are kept, contracted, or summed in one operand."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..errors import PlanError

Sizes = tuple[int, ...]
# Letters of the axes of an operand. Those of an ellipsis are "...0", "...1" from the
# right; any other letter is one character, or any text that tells axes apart.
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


class Roles(NamedTuple):
    """The letters of two operands by their roles.

    Attributes
    ----------
    batch : of both and of the result
    left, right : of one and of the result
    contracted : of both alone
    """

    batch: Term
    left: Term
    right: Term
    contracted: Term


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
    straightened = [
        _straighten(term, shape, sizes)
        for term, shape in zip(terms, shapes, strict=True)
    ]
    # What is left of each, and how many operands have a letter.
    kept = [
        [x for axis, x in enumerate(term) if axis not in dropped]
        for _, term, dropped in straightened
    ]
    counts = Counter(x for letters in kept for x in letters)
    counts.update(output)
    found = []
    for diagonals, term, dropped in straightened:
        summed = tuple(
            axis
            for axis, letter in enumerate(term)
            if axis not in dropped and counts[letter] == 1
        )
        left = tuple(
            x for axis, x in enumerate(term) if axis not in (*dropped, *summed)
        )
        found.append(Reduction(diagonals, dropped, summed, left))
    return tuple(found)


def _straighten(
    term: Term, shape: Sizes, sizes: dict[str, int]
) -> tuple[tuple[tuple[int, int], ...], Term, tuple[int, ...]]:
    """Find diagonals, the letters after they are taken, and axes that are broadcast."""
    letters, own = list(term), dict(zip(term, shape, strict=True))
    diagonals = []
    for letter in dict.fromkeys(term):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            diagonals.append((first, second))
            del letters[second], letters[first]
            letters.append(letter)
    dropped = tuple(
        axis for axis, x in enumerate(letters) if own[x] == 1 and sizes[x] != 1
    )
    return tuple(diagonals), tuple(letters), dropped


def find_roles(a: Term, b: Term, output: Term) -> Roles:
    """Sort the letters of two reduced operands by their roles.

    Examples
    --------
    >>> find_roles(("b", "i", "k"), ("k", "b"), ("b", "i"))
    Roles(batch=('b',), left=('i',), right=(), contracted=('k',))
    """
    return Roles(
        tuple(x for x in output if x in a and x in b),
        tuple(x for x in a if x not in b),
        tuple(x for x in b if x not in a),
        tuple(x for x in a if x in b and x not in output),
    )
