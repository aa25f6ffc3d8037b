"""Subscripts such as "...ij,jk->...ik", as letters of axes."""

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from ..errors import PlanError

# Letters of the axes of an operand. Those of an ellipsis are "...0", "...1" from the
# right; a letter is else one character, or whatever else tells axes apart.
Term = tuple[str, ...]

# Beyond a to Z, as networks of many letters have them.
_TERM = re.compile(r"(?:(?![\x00-@\[-`{-\x7f]|\s).)*")
_ELLIPSIS = "..."


class Subscripts(NamedTuple):
    """What einsum sums: the letters of each operand, and of the result."""

    terms: tuple[Term, ...]
    output: Term


@lru_cache(maxsize=1024)
def parse(subscripts: str, ndims: tuple[int, ...]) -> Subscripts:
    """Read subscripts for operands of so many axes, or say what is wrong with them.

    Examples
    --------
    >>> parse("ij,...j", (2, 2)).output
    ('...0', 'i')
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    texts = inputs.split(",")
    _check(subscripts, [*texts, output])
    if len(texts) != len(ndims):
        raise PlanError(
            f"the subscripts {subscripts!r} are those of {len(texts)} operands, and "
            f"{len(ndims)} are given",
            "",
            "operand-count",
        )
    terms = tuple(
        _expand(text, ndim, position, subscripts)
        for position, (text, ndim) in enumerate(zip(texts, ndims, strict=True), 1)
    )
    counts = Counter(letter for term in terms for letter in term)
    dots = sorted((x for x in counts if len(x) > 1), key=_place, reverse=True)
    if not arrow:
        once = sorted(x for x, count in counts.items() if count == 1 and len(x) == 1)
        return Subscripts(terms, (*dots, *once))
    _check_output(output, counts, subscripts)
    before, ellipsis, after = output.partition(_ELLIPSIS)
    if dots and not ellipsis:
        text = f"the result of {subscripts!r} has no ellipsis, and the operands have"
        raise PlanError(text, "Write '...' after the arrow", "subscripts")
    return Subscripts(terms, (*before, *dots, *after) if ellipsis else (*before,))


def _place(letter: str) -> int:
    return int(letter.removeprefix(_ELLIPSIS))


def _check(subscripts: str, texts: list[str]) -> None:
    """Refuse what is neither letters nor one ellipsis."""
    for text in texts:
        letters = text.replace(_ELLIPSIS, "", 1)
        if not _TERM.fullmatch(letters):
            raise PlanError(
                f"{text!r} in the subscripts {subscripts!r} is not made of letters and "
                "an ellipsis",
                "Write them as numpy.einsum has them",
                "subscripts",
            )


def _expand(text: str, ndim: int, position: int, subscripts: str) -> Term:
    """Give each axis of an operand a letter."""
    before, ellipsis, after = text.partition(_ELLIPSIS)
    more = ndim - len(before) - len(after)
    if more < 0 or (more and not ellipsis):
        raise PlanError(
            f"operand {position} has {ndim} axes, and {text!r} in the subscripts "
            f"{subscripts!r} is not for so many",
            "",
            "operand-axes",
        )
    dots = (f"{_ELLIPSIS}{place}" for place in reversed(range(more)))
    return (*before, *dots, *after)


def _check_output(output: str, counts: Counter[str], subscripts: str) -> None:
    """Refuse letters of the result that no operand has, or that it has twice."""
    letters = output.replace(_ELLIPSIS, "", 1)
    for letter in letters:
        if letter not in counts:
            problem = f"no operand has the letter {letter!r} of the result"
        elif letters.count(letter) > 1:
            problem = f"the result has the letter {letter!r} twice"
        else:
            continue
        text = f"{problem} (subscripts {subscripts!r})"
        raise PlanError(text, "", "output-letter")
