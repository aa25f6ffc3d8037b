"""The layout of two operands as (stacks of) matrices, with as few copies as possible.

Axes are permuted into stack, rows and columns, and rows and columns are fused. Axes
fuse without a copy where each ends where the next one begins, so each group is taken in
the order of its operand's memory. Contracted axes have one order in both operands: that
of the one whose copy would be larger.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf, prod
from typing import NamedTuple

from ..errors import PlanError
from ..typing import Op
from .letters import Roles, Sizes, Term, find_roles

# NumPy has no array of more.
_MOST_AXES = 64


class FusedSide(NamedTuple):
    """One operand as matrices.

    Attributes
    ----------
    axes : axes of the operand
        Stack, then rows, then columns of the matrices.
    term : letters
        Of these axes.
    rows, columns : int
        Numbers of axes that are fused to each.
    shape : tuple of int
        Stack, and rows and columns fused.
    op : {"N", "T"}
        T: the matrices are k x m, or n x k on the right.
    """

    axes: tuple[int, ...]
    term: Term
    rows: int
    columns: int
    shape: Sizes
    op: Op


class PairLayout(NamedTuple):
    """The product of two reduced operands, as that of (stacks of) matrices.

    Attributes
    ----------
    left, right : FusedSide
    result : letters
        Of the product: stack, left and right.
    split : tuple of int
        Sizes of these letters.
    order : tuple of int
        Axes of the product in the order of the result.
    inner : letters
        Contracted letters; none where entries are multiplied.
    shape : (m, n, k)
        Of each product of matrices.
    mirror : pair of axes, or None
        Axes of both operands in an order in which they may be equal: stack, other axes
        of the result, then those that are contracted. None if shapes exclude that.
    """

    left: FusedSide
    right: FusedSide
    result: Term
    split: Sizes
    order: tuple[int, ...]
    inner: Term
    shape: tuple[int, int, int]
    mirror: tuple[tuple[int, ...], tuple[int, ...]] | None


@lru_cache(maxsize=4096)
def lay_out(
    a: Term,
    b: Term,
    output: Term,
    shapes: tuple[Sizes, Sizes],
    strides: tuple[Sizes, Sizes],
) -> PairLayout:
    """Choose the layout of the product of two reduced operands."""
    if len(output) > _MOST_AXES:
        problem = f"a product of two operands would have {len(output)} axes"
        remedy = f"NumPy's arrays have up to {_MOST_AXES}: fuse some with reshape"
        raise PlanError(problem, remedy, "axes")
    roles = find_roles(a, b, output)
    sizes = dict(zip((*a, *b), (*shapes[0], *shapes[1]), strict=True))
    steps = [dict(zip(x, y, strict=True)) for x, y in zip((a, b), strides, strict=True)]
    left, right = (
        _by_memory(letters, step)
        for letters, step in zip((roles.left, roles.right), steps, strict=True)
    )
    orders = [_by_memory(roles.contracted, step) for step in steps]
    groups = (left, right)

    def count_copied(order: Term) -> int:
        return sum(
            prod(shape)
            for shape, group, step in zip(shapes, groups, steps, strict=True)
            if not (_fuses(group, sizes, step) and _fuses(order, sizes, step))
        )

    inner = min(orders, key=count_copied)
    result = (*roles.batch, *left, *right)
    return PairLayout(
        _make_side(a, roles.batch, (left, inner), sizes, steps[0]),
        _make_side(b, roles.batch, (inner, right), sizes, steps[1]),
        result,
        tuple(sizes[x] for x in result),
        tuple(result.index(x) for x in output),
        inner,
        (_size(left, sizes), _size(right, sizes), _size(inner, sizes)),
        _find_mirror((a, b), groups, roles, inner, sizes),
    )


def _find_mirror(
    terms: tuple[Term, Term],
    groups: tuple[Term, Term],
    roles: Roles,
    inner: Term,
    sizes: dict[str, int],
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Find the axes of both operands in an order in which their shapes agree."""
    first, second = ([sizes[x] for x in group] for group in groups)
    if first != second:
        return None
    left, right = (
        tuple(term.index(x) for x in (*roles.batch, *group, *inner))
        for term, group in zip(terms, groups, strict=True)
    )
    return left, right


def _by_memory(letters: Term, strides: dict[str, int]) -> Term:
    """Order letters from the largest stride to the smallest."""
    return tuple(sorted(letters, key=lambda x: -abs(strides[x])))


def _fuses(letters: Term, sizes: dict[str, int], strides: dict[str, int]) -> bool:
    """Tell whether axes, in this order, form a single axis in memory."""
    long = [x for x in letters if sizes[x] != 1]
    return all(strides[x] == strides[y] * sizes[y] for x, y in pairwise(long))


def _make_side(
    term: Term,
    batch: Term,
    groups: tuple[Term, Term],
    sizes: dict[str, int],
    strides: dict[str, int],
) -> FusedSide:
    """Take rows and columns as they lie, or the other way round, transposed."""
    rows, columns = groups
    turned = _finest(rows, sizes, strides) < _finest(columns, sizes, strides)
    if turned:
        rows, columns = columns, rows
    letters = (*batch, *rows, *columns)
    return FusedSide(
        tuple(term.index(x) for x in letters),
        letters,
        len(rows),
        len(columns),
        (*(sizes[x] for x in batch), _size(rows, sizes), _size(columns, sizes)),
        "T" if turned else "N",
    )


def _finest(letters: Term, sizes: dict[str, int], strides: dict[str, int]) -> float:
    """Return the least stride of axes of more than one entry."""
    steps = [abs(strides[x]) for x in letters if sizes[x] != 1]
    return min(steps, default=inf)


def _size(letters: Sequence[str], sizes: dict[str, int]) -> int:
    return prod(sizes[x] for x in letters)
