"""Letters of axes: of subscripts such as "...ij,jk->...ik", matmul and tensordot.

Letters tell which axes are kept, contracted, or summed in one operand. opt_einsum reads
the subscripts of einsum, and is imported only then.
"""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, PlanError
from ..typing import as_integer

Sizes = tuple[int, ...]
# Letters of the axes of an operand: any texts that tell axes apart. Those of einsum are
# one character, behind "..." if they stand for an axis of an ellipsis.
Term = tuple[str, ...]


class Reduction(NamedTuple):
    """Reduction of one operand before it is multiplied."""

    # Pairs of axes, one after the other; a diagonal comes last, as NumPy has it.
    diagonals: tuple[tuple[int, int], ...]
    # Axes, after diagonals are taken and before any axis is removed: those of one entry
    # where other operands have more, and those whose letters nothing else has.
    dropped: tuple[int, ...]
    summed: tuple[int, ...]
    term: Term  # the letters that are left

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
                text = f"{name} is {size} long in operand {position}, not {other}"
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
            tuple(i for i, x in enumerate(term) if x in ones),
            tuple(i for i, x in enumerate(term) if x not in ones and counts[x] == 1),
            tuple(x for x in kept if counts[x] > 1),
        )
        for (diagonals, term), ones, kept in zip(straight, single, left, strict=True)
    )


def _find_diagonals(term: Term) -> tuple[tuple[tuple[int, int], ...], Term]:
    letters, diagonals = list(term), []
    for letter in dict.fromkeys(term):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            diagonals.append((first, second))
            del letters[second], letters[first]
            letters.append(letter)
    return tuple(diagonals), tuple(letters)


# Letters beyond a to Z are allowed, since networks of many letters need them.
_LETTERS = re.compile(r"[^\x00-@\[-`{-\x7f\s]*")
_ELLIPSIS = "..."


def write_letters(given: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Write NumPy's other form, operands and lists of their axes in turn, in letters.

    Returns the subscripts and the operands.

    >>> write_letters(["A", [0, 1], "B", [1, 2], [0, 2]])
    ('ab,bc->ac', ['A', 'B'])
    """
    from opt_einsum import get_symbol

    count = len(given) // 2 * 2
    operands, lists = given[0:count:2], [*given[1:count:2], *given[count:]]
    names = None
    if all(isinstance(x, list | tuple) for x in lists):
        with suppress(TypeError):
            names = sorted({*chain(*lists)} - {...})
    if names is None:
        text = "einsum was given neither subscripts nor a list of axes for each operand"
        remedy = "Write letters, such as 'ij,jk->ik', or lists: A, [0, 1], B, [1, 2]"
        raise ArgumentError(text, remedy, "subscripts")
    # In their order, by which einsum sorts the axes of a result that is not named.
    symbols = sorted(map(get_symbol, range(len(names))))
    letters = {**dict(zip(names, symbols, strict=True)), ...: _ELLIPSIS}
    terms = ["".join(letters[name] for name in x) for x in lists]
    inputs = ",".join(terms[: len(operands)])
    return "->".join([inputs, *terms[len(operands) :]]), operands


@lru_cache(maxsize=1024)
def parse(subscripts: str, ndims: tuple[int, ...]) -> tuple[tuple[Term, ...], Term]:
    """Read subscripts for operands of `ndims` axes, or say what is wrong with them.

    >>> parse("ij,...j", (2, 2))
    ((('i', 'j'), ('...b', 'j')), ('...b', 'i'))
    """
    from opt_einsum.parser import parse_einsum_input

    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    _check(subscripts, inputs.split(","), output, ndims)
    shapes = ((1,) * ndim for ndim in ndims)
    try:
        found = parse_einsum_input((subscripts, *shapes), shapes=True)
    except ValueError as error:
        text = f"{error} (subscripts {subscripts!r})"
        raise PlanError(text, "", "output-letter") from None
    # Axes of an ellipsis get letters that are not in the subscripts.
    *terms, result = (
        tuple(x if x in inputs else _ELLIPSIS + x for x in term)
        for term in (*found[0].split(","), found[1])
    )
    dots = any(len(x) > 1 for x in chain(*terms))
    if arrow and dots and _ELLIPSIS not in output:
        text = f"an operand of {subscripts!r} has an ellipsis, but not the result"
        raise PlanError(text, "Write '...' after the arrow", "subscripts")
    return tuple(terms), result


def _check(subscripts: str, terms: list[str], output: str, ndims: Sizes) -> None:
    """Refuse what opt_einsum takes, or says in other words for each form."""
    for text in (*terms, output):
        if not _LETTERS.fullmatch(text.replace(_ELLIPSIS, "", 1)):
            problem = (
                f"{text!r} in the subscripts {subscripts!r} is not made of letters and "
                "an ellipsis"
            )
            raise PlanError(problem, "Write them as for numpy.einsum", "subscripts")
    if len(terms) != len(ndims):
        problem = f"{subscripts!r} has {len(terms)} terms for {len(ndims)} operands"
        raise PlanError(problem, "", "operand-count")
    for position, (text, ndim) in enumerate(zip(terms, ndims, strict=True), 1):
        named = len(text.replace(_ELLIPSIS, ""))
        if named > ndim or (named < ndim and _ELLIPSIS not in text):
            problem = (
                f"operand {position} has {ndim} axes, but {text!r} in the subscripts "
                f"{subscripts!r} names {named}"
            )
            raise PlanError(problem, "", "operand-axes")


_Pair = tuple[tuple[Term, Term], Term]


@lru_cache(maxsize=4096)
def matmul_terms(left: Sizes, right: Sizes) -> _Pair:
    """Name the axes of a matrix product; vectors stand for a row and a column."""
    for name, shape in (("x1", left), ("x2", right)):
        if not shape:
            text = f"{name} is a scalar, but matmul multiplies vectors and matrices"
            raise PlanError(text, "Use multiply", "no-axes")
    k, other = left[-1], right[max(0, len(right) - 2)]
    if k != other:
        problem = (
            f"x1 has shape {left} and x2 {right}, but the last axis of x1 and the last "
            "but one of x2 must agree"
        )
        raise PlanError(problem, "", "shapes")
    try:
        np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise PlanError(
            f"the batches {left[:-2]} of x1 and {right[:-2]} of x2 do not broadcast",
            "Make the axes in front equal, or of one entry",
            "stack-shapes",
        ) from None
    dots = tuple(f"...{i}" for i in reversed(range(max(len(left), len(right)) - 2)))
    front = [dots[len(dots) - len(x[:-2]) :] for x in (left, right)]
    rows = ("i",) if len(left) > 1 else ()
    columns = ("j",) if len(right) > 1 else ()
    terms = (*front[0], *rows, "k"), (*front[1], "k", *columns)
    return terms, (*dots, *rows, *columns)


def tensordot_terms(left: Sizes, right: Sizes, axes: Any) -> _Pair:
    """Name the axes of a tensor product that contracts these axes."""
    first, second = read_axes(axes, len(left), len(right))
    for x, y in zip(first, second, strict=True):
        if left[x] != right[y]:
            text = (
                f"axis {x} of a has {left[x]} entries and axis {y} of b {right[y]}, "
                "but axes that are contracted must agree"
            )
            raise PlanError(text, "", "shapes")
    return _name(len(left), len(right), tuple(first), tuple(second))


@lru_cache(maxsize=4096)
def _name(left: int, right: int, first: Sizes, second: Sizes) -> _Pair:
    a = tuple(f"a{axis}" for axis in range(left))
    same = dict(zip(second, first, strict=True))
    b = tuple(a[same[axis]] if axis in same else f"b{axis}" for axis in range(right))
    return (a, b), tuple(x for x in (*a, *b) if (x in a) != (x in b))


def read_axes(axes: Any, left: int, right: int) -> tuple[list[int], list[int]]:
    """Read a number of axes, or two lists of them."""
    count = as_integer(axes)
    if count is not None:
        if not 0 <= count <= min(left, right):
            text = f"axes={count}, but a has {left} axes and b {right}"
            remedy = "Give a number that is not negative" if count < 0 else ""
            raise PlanError(text, remedy, "axes")
        return list(range(left - count, left)), list(range(count))
    pair = list(axes) if np.iterable(axes) else []
    if len(pair) != 2 or isinstance(axes, str):
        text = f"axes={axes!r} is neither a number of axes nor axes of a and of b"
        raise ArgumentError(text, "Give 2, or ([0], [1])", "axes")
    first, second = (
        read_each(given, ndim, name)
        for given, ndim, name in zip(pair, (left, right), "ab", strict=True)
    )
    if len(first) != len(second):
        text = f"{len(first)} axes of a and {len(second)} of b are to be contracted"
        raise PlanError(text, "Give as many of each", "axes")
    return first, second


def read_each(given: Any, ndim: int, name: str) -> list[int]:
    """Read axes of an array; negative ones count from the end."""
    listed = list(given) if np.iterable(given) else [given]
    found = []
    for value in listed:
        axis = as_integer(value)
        if axis is None or not -ndim <= axis < ndim:
            text = f"{value!r} is not one of the {ndim} axes of {name}"
            raise PlanError(text, "", "axes")
        found.append(axis % ndim)
    if len(set(found)) < len(found):
        raise PlanError(f"axes of {name} are given twice: {given}", "", "axes")
    return found
