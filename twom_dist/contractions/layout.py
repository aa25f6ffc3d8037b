"""The layout of two operands as (stacks of) matrices, with as few copies as possible.

Axes are permuted into stack, rows and columns, and rows and columns are fused. Axes
fuse without a copy where each ends where the next one begins, so each group is taken in
the order of its operand's memory. Contracted axes have one order in both operands: that
of the one whose copy would be larger.
"""

from functools import lru_cache
from itertools import pairwise
from math import inf, prod
from typing import NamedTuple

from ..errors import PlanError
from ..typing import Op
from .letters import Sizes, Term

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
    rows : int
        Number of axes that are fused to rows.
    shape : tuple of int
        Stack, and rows and columns fused.
    op : {"N", "T"}
        T: the matrices are k x m, or n x k on the right.
    """

    axes: tuple[int, ...]
    term: Term
    rows: int
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


class _Operand(NamedTuple):
    """The letters of an operand, and the size and the stride of the axis of each."""

    term: Term
    sizes: dict[str, int]
    steps: dict[str, int]

    def by_memory(self, letters: Term) -> Term:
        """Order letters from the largest stride to the smallest."""
        return tuple(sorted(letters, key=lambda x: -abs(self.steps[x])))

    def fuses(self, letters: Term) -> bool:
        """Tell whether axes, in this order, form a single axis in memory."""
        long = [x for x in letters if self.sizes[x] != 1]
        steps, sizes = self.steps, self.sizes
        return all(steps[x] == steps[y] * sizes[y] for x, y in pairwise(long))

    def finest(self, letters: Term) -> float:
        """Return the least stride of axes of more than one entry."""
        steps = (abs(self.steps[x]) for x in letters if self.sizes[x] != 1)
        return min(steps, default=inf)

    def size(self, letters: Term) -> int:
        """Return the number of entries along these axes."""
        return prod(self.sizes[x] for x in letters)

    def fused(self, batch: Term, rows: Term, columns: Term) -> FusedSide:
        """Take rows and columns as they lie, or the other way round, transposed."""
        turned = self.finest(rows) < self.finest(columns)
        if turned:
            rows, columns = columns, rows
        letters = (*batch, *rows, *columns)
        shape = (*(self.sizes[x] for x in batch), self.size(rows), self.size(columns))
        axes = tuple(self.term.index(x) for x in letters)
        return FusedSide(axes, letters, len(rows), shape, "T" if turned else "N")


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
    x, y = (
        _Operand(
            term,
            dict(zip(term, shape, strict=True)),
            dict(zip(term, steps, strict=True)),
        )
        for term, shape, steps in zip((a, b), shapes, strides, strict=True)
    )
    batch = tuple(t for t in output if t in a and t in b)
    left = x.by_memory(tuple(t for t in a if t not in b))
    right = y.by_memory(tuple(t for t in b if t not in a))
    contracted = tuple(t for t in a if t in b and t not in output)

    def count_copied(order: Term) -> int:
        return sum(
            z.size(z.term)
            for z, group in ((x, left), (y, right))
            if not (z.fuses(group) and z.fuses(order))
        )

    inner = min((z.by_memory(contracted) for z in (x, y)), key=count_copied)
    result, sizes = (*batch, *left, *right), x.sizes | y.sizes
    mirror = None
    if [sizes[t] for t in left] == [sizes[t] for t in right]:
        mirror = (
            tuple(a.index(t) for t in (*batch, *left, *inner)),
            tuple(b.index(t) for t in (*batch, *right, *inner)),
        )
    return PairLayout(
        x.fused(batch, left, inner),
        y.fused(batch, inner, right),
        result,
        tuple(sizes[t] for t in result),
        tuple(result.index(t) for t in output),
        inner,
        (x.size(left), y.size(right), x.size(inner)),
        mirror,
    )
