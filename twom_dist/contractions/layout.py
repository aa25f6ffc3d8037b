"""Two operands laid out as (stacks of) matrices, with as few copies as possible.

Axes are permuted into stack, rows and columns, and rows and columns are fused. Axes
that are adjacent in memory fuse without a copy, so each group of axes is taken in the
order of its operand's memory. Contracted axes need the same order in both operands: the
order of the operand whose copy would be larger.

Arrays in memory are reshaped, which copies only where a view will not do. Dask arrays
are fused block by block: contracted axes come in the order of their blocks, in both
operands alike, and only the first of the other axes is cut, so that blocks are neither
merged nor made small.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress, pairwise, product
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from ..errors import MemoryLimitError, PlanError
from ..problem.matrices import dask_array, is_dask
from ..typing import Op
from .arrays import permute, sort_axes
from .subscripts import Sizes, Term

_MOST_AXES = 64  # NumPy has no array of more


class FusedSide(NamedTuple):
    """One operand as matrices."""

    axes: tuple[int, ...]  # of the operand: stack, rows, then columns of the matrices
    term: Term  # the letters of these axes
    rows: int  # number of axes that are fused to rows
    shape: Sizes  # stack, and rows and columns fused
    op: Op  # T: the matrices are k x m, or n x k on the right


class PairLayout(NamedTuple):
    """The product of two reduced operands, as that of (stacks of) matrices."""

    left: FusedSide
    right: FusedSide
    result: Term  # letters of the product: stack, left and right
    split: Sizes  # sizes of these letters
    order: tuple[int, ...]  # axes of the product in the order of the result
    inner: Term  # contracted letters; none where entries are multiplied
    shape: tuple[int, int, int]  # (m, n, k) of each product of matrices
    # Axes of both operands in an order in which they may be equal: stack, other axes of
    # the result, then those that are contracted. None if shapes exclude that.
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

    def fuse_side(self, batch: Term, rows: Term, columns: Term) -> FusedSide:
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
        x.fuse_side(batch, left, inner),
        y.fuse_side(batch, inner, right),
        result,
        tuple(sizes[t] for t in result),
        tuple(result.index(t) for t in output),
        inner,
        (x.size(left), y.size(right), x.size(inner)),
        mirror,
    )


# The chunks of each letter of dask arrays before their axes were fused.
Chunks = dict[str, tuple[int, ...]]


def fuse(a: Any, b: Any, layout: PairLayout) -> tuple[Any, Any, Chunks]:
    """View two operands as (stacks of) matrices.

    Returns with them what `split` needs to know.
    """
    chunks: Chunks = {}
    sides = layout.left, layout.right
    arrays = [permute(a, layout.left.axes), permute(b, layout.right.axes)]
    if not is_dask(a):
        return *map(_view, arrays, (layout.left.shape, layout.right.shape)), chunks
    if len(layout.inner) > 1:
        # A single axis is left to the product, which cuts it alike, too.
        small = 0 if a.size < b.size else 1
        cut = dict(zip(sides[1 - small].term, arrays[1 - small].chunks, strict=True))
        like = {sides[small].term.index(x): cut[x] for x in layout.inner}
        arrays[small] = arrays[small].rechunk(like, method="tasks")
    for i, side in enumerate(sides):
        x = _cut_groups(arrays[i], side, layout.inner)
        chunks |= zip(side.term, x.chunks, strict=True)
        arrays[i] = _reshape(x, side.shape, len(side.shape) - 2)
    return arrays[0], arrays[1], chunks


def split(x: Any, layout: PairLayout, chunks: Chunks | None = None) -> Any:
    """View a product as the result: its axes, in their order."""
    if x.shape == layout.split:
        return permute(x, layout.order)
    if not chunks:
        x = x.reshape(layout.split)
    else:
        stack = x.ndim - 2
        rows = len({*layout.left.term} - {*layout.right.term}) + stack
        # Stacks are cut as the product has cut them; their matrices are whole.
        known = [chunks[letter] for letter in layout.result]
        known[:stack] = x.chunks[:stack]
        both = known[stack:rows], known[rows:]
        whole = (tuple(map(prod, product(*y))) for y in both)
        x = x.rechunk((*x.chunks[:stack], *whole), method="tasks")
        x = _reshape(x, layout.split, stack, known)
    return permute(x, layout.order)


def make_zeros(a: Any, b: Any, layout: PairLayout) -> Any:
    """Return a lazy result of zeros."""
    dtype = np.result_type(a.dtype, b.dtype)
    like = a._meta if is_dask(a) else a[:0]
    zeros = dask_array().zeros(layout.split, dtype=dtype, meta=like.astype(dtype))
    return permute(zeros, layout.order)


def make_lazy(a: Any, b: Any, terms: Sequence[Term], layout: PairLayout) -> list[Any]:
    """Make a dask array of the operand that is none, cut as the other one is.

    Where the other may be its conjugate, its name so is that of the same array there.
    """
    arrays = [a, b]
    own = 1 if is_dask(a) else 0
    x, chunks = arrays[own], arrays[1 - own].chunks
    known = dict(zip(terms[1 - own], chunks, strict=True))
    if layout.mirror is not None:
        pairs = zip(layout.mirror[own], layout.mirror[1 - own], strict=True)
        known |= {terms[own][axis]: chunks[other] for axis, other in pairs}
    free = "auto" if x.size else -1  # which dask finds for some entries alone
    cut = [known.get(letter, free) for letter in terms[own]]
    # A view that is transposed has not the name of what it is a view of.
    order = range(x.ndim) if x.base is None else sort_axes(x)
    found = dask_array().from_array(
        permute(x, tuple(order)), chunks=tuple(cut[i] for i in order)
    )
    arrays[own] = permute(found, tuple(list(order).index(i) for i in range(x.ndim)))
    return arrays


def _view(x: Any, shape: Sizes) -> Any:
    try:
        return x if x.shape == shape else x.reshape(shape)
    except MemoryError:
        size = f"{x.nbytes / 2**30:.3g} GiB"
        problem = f"an operand would be copied, and {size} do not fit into memory"
        remedy = "Give dask.array.from_array(x, chunks=...), copied chunk by chunk"
        raise MemoryLimitError(problem, remedy, "memory") from None


def _cut_groups(x: Any, side: FusedSide, inner: Term) -> Any:
    """Cut only the first long axis of rows or columns, as finely as all of them were.

    Contracted axes stay as they are, since both sides have them cut alike.
    """
    stack = len(side.shape) - 2
    middle = stack + side.rows
    for start, stop in ((stack, middle), (middle, len(side.term))):
        long = [axis for axis in range(start, stop) if x.shape[axis] != 1]
        pieces = prod(len(x.chunks[axis]) for axis in long[1:])
        if side.term[start:stop] != inner and pieces > 1:
            leading = max(1, max(x.chunks[long[0]]) // pieces)
            cut = {**dict.fromkeys(long[1:], -1), long[0]: leading}
            x = x.rechunk(cut, method="tasks")
    return x


def _reshape(x: Any, shape: Sizes, stack: int, chunks: Sequence[Any] = ()) -> Any:
    """Reshape block by block; axes of one entry, except of the stack, are put aside."""
    if x.shape == shape:
        return x
    x = x[tuple(slice(None) if y else 0 for y in _are_long(x.shape, stack))]
    kept = _are_long(shape, stack)
    long = tuple(compress(shape, kept))
    if x.shape != long:
        x = dask_array().reshape_blockwise(
            x, long, chunks=tuple(compress(chunks, kept)) or None
        )
    return x[tuple(slice(None) if y else None for y in kept)]


def _are_long(shape: Sizes, stack: int) -> list[bool]:
    return [axis < stack or size != 1 for axis, size in enumerate(shape)]
