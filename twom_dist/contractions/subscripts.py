"""Letters of axes: of subscripts such as "...ij,jk->...ik", matmul and tensordot."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, PlanError, shown
from ..problem.sizes import same_sizes
from ..typing import as_integer
from .letters import Sizes, Term

# Letters beyond a to Z are allowed, since networks of many letters need them.
_TERM = re.compile(r"(?:(?![\x00-@\[-`{-\x7f]|\s).)*")
_ELLIPSIS = "..."
_FORMS = "Write letters, such as 'ij,jk->ik', or lists: A, [0, 1], B, [1, 2]"
# In NumPy's order, in which it sorts the axes of a result that is not named; then all
# that no space interrupts, for networks of many letters.
_LETTERS = ascii_uppercase + ascii_lowercase + "".join(map(chr, range(0xC0, 0x1680)))


class Subscripts(NamedTuple):
    """Letters of each operand of einsum, and of the result."""

    terms: tuple[Term, ...]
    output: Term


def write_letters(given: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Write NumPy's other form, operands and lists of their axes in turn, in letters.

    Returns the subscripts and the operands.

    Examples
    --------
    >>> write_letters(["A", [0, 1], "B", [1, 2], [0, 2]])
    ('AB,BC->AC', ['A', 'B'])
    """
    count = len(given) // 2 * 2
    operands, lists = given[0:count:2], [*given[1:count:2], *given[count:]]
    if any(getattr(x, "ndim", 1) != 1 for x in lists):
        text = "an array stands where axes are expected"
        raise ArgumentError(text, _FORMS, "subscripts")
    terms = ["".join(map(_letter_of, _list_axes(x))) for x in lists]
    inputs = ",".join(terms[: len(operands)])
    return "->".join([inputs, *terms[len(operands) :]]), operands


def _list_axes(given: Any) -> list[Any]:
    return list(given) if np.iterable(given) else [given]


def _letter_of(axis: Any) -> str:
    number = as_integer(axis)
    if axis is Ellipsis:
        return _ELLIPSIS
    if number is None or not 0 <= number < len(_LETTERS):
        raise ArgumentError(
            f"the axis {shown(axis)} is neither an integer of 0 to "
            f"{len(_LETTERS) - 1} nor an ellipsis",
            _FORMS,
            "subscripts",
        )
    return _LETTERS[number]


@lru_cache(maxsize=1024)
def parse(subscripts: str, ndims: tuple[int, ...]) -> Subscripts:
    """Read subscripts for operands of `ndims` axes, or say what is wrong with them.

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
            f"the number of terms in {subscripts!r} is {len(texts)}, and that of "
            f"operands {len(ndims)}",
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
        text = f"an operand of {subscripts!r} has an ellipsis, but not the result"
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
                "Write them as for numpy.einsum",
                "subscripts",
            )


def _expand(text: str, ndim: int, position: int, subscripts: str) -> Term:
    """Give each axis of an operand a letter."""
    before, ellipsis, after = text.partition(_ELLIPSIS)
    more = ndim - len(before) - len(after)
    if more < 0 or (more and not ellipsis):
        raise PlanError(
            f"operand {position} has {ndim} axes, but {text!r} in the subscripts "
            f"{subscripts!r} names {len(before) + len(after)}",
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


_Pair = tuple[tuple[Term, Term], Term]


@lru_cache(maxsize=4096)
def matmul_terms(left: Sizes, right: Sizes) -> _Pair:
    """Name the axes of a matrix product; vectors stand for a row and a column."""
    for name, shape in (("x1", left), ("x2", right)):
        if not shape:
            text = f"{name} is a scalar, but matmul multiplies vectors and matrices"
            raise PlanError(text, "Use multiply", "no-axes")
    k, other = left[-1], right[max(0, len(right) - 2)]
    if not same_sizes((k,), (other,)):
        raise PlanError(
            f"x1 has shape {left} and x2 {right}, but the last axis of x1 and the last "
            "but one of x2 must agree",
            "",
            "shapes",
        )
    try:
        np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise PlanError(
            f"the stacks {left[:-2]} of x1 and {right[:-2]} of x2 do not broadcast",
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
    first, second = _read_axes(axes, len(left), len(right))
    for x, y in zip(first, second, strict=True):
        if left[x] != right[y]:
            text = (
                f"axis {x} of a has {left[x]} entries and axis {y} of b {right[y]}, "
                "but axes that are contracted must agree"
            )
            raise PlanError(text, "", "shapes")
    return _name(len(left), len(right), tuple(first), tuple(second))


@lru_cache(maxsize=4096)
def _name(
    left: int, right: int, first: tuple[int, ...], second: tuple[int, ...]
) -> _Pair:
    a = [f"a{axis}" for axis in range(left)]
    b = [f"b{axis}" for axis in range(right)]
    for x, y in zip(first, second, strict=True):
        b[y] = a[x]
    output = [x for axis, x in enumerate(a) if axis not in first]
    output += [x for axis, x in enumerate(b) if axis not in second]
    return (tuple(a), tuple(b)), tuple(output)


def _read_axes(axes: Any, left: int, right: int) -> tuple[list[int], list[int]]:
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
