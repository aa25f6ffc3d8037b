"""Axes fused to rows and columns of matrices, and split again.

Arrays in memory are reshaped, which copies only where a view will not do. Dask arrays
are fused block by block: contracted axes come in the order of their blocks, in both
operands alike, and only the first of the other axes is cut, so that blocks are neither
merged nor made small.
"""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..errors import MemoryLimitError, PlanError
from ..problem.matrices import is_dask
from .arrays import permute, sort_axes
from .layout import FusedSide, PairLayout
from .letters import Term

AllChunks = tuple[tuple[int, ...], ...]
# A dask array, and the chunks that it had before its axes were fused.
Fused = tuple[Any, AllChunks]


def fuse(x: Any, side: FusedSide) -> Any:
    """View an operand as (a stack of) matrices."""
    x = permute(x, side.axes)
    try:
        return x if x.shape == side.shape else x.reshape(side.shape)
    except MemoryError:
        size = f"{x.nbytes / 2**30:.3g} GiB"
        problem = f"the view of an operand has to be copied, and {size} is too much"
        remedy = "Give dask.array.from_array(x, chunks=...), copied chunk by chunk"
        raise MemoryLimitError(problem, remedy, "memory") from None


def split(x: Any, layout: PairLayout) -> Any:
    """View a product as the result: its axes, in their order."""
    if x.shape != layout.split:
        x = x.reshape(layout.split)
    return permute(x, layout.order)


def fuse_lazily(a: Any, b: Any, layout: PairLayout) -> tuple[Fused, Fused]:
    """Fuse two dask arrays."""
    a, b = _align(a, b, layout)
    inner = layout.inner
    return _fuse_blocks(a, layout.left, inner), _fuse_blocks(b, layout.right, inner)


def make_zeros(a: Any, b: Any, layout: PairLayout) -> Any:
    """Return a lazy result of zeros."""
    import dask.array as da

    like, dtype = getattr(a, "_meta", b), np.result_type(a.dtype, b.dtype)
    like = getattr(like, "_meta", like)
    zeros = da.zeros(layout.split, dtype=dtype, meta=like.astype(dtype))
    return permute(zeros, layout.order)


def make_lazy(a: Any, b: Any, layout: PairLayout) -> list[Any]:
    """Make a dask array of the operand that is none, cut as the other one is.

    Where the other may be its conjugate, its name so is that of the same array there.
    """
    import dask.array as da

    terms = [_own_term(side) for side in (layout.left, layout.right)]
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
    found = da.from_array(permute(x, tuple(order)), chunks=tuple(cut[i] for i in order))
    arrays[own] = permute(found, tuple(list(order).index(i) for i in range(x.ndim)))
    return arrays


def _align(a: Any, b: Any, layout: PairLayout) -> tuple[Any, Any]:
    """Cut alike axes that are fused in both operands."""
    terms = [_own_term(side) for side in (layout.left, layout.right)]
    arrays = [a, b]
    if len(layout.inner) > 1:
        # A single axis is left to the product, which cuts it alike, too.
        small = 0 if arrays[0].size < arrays[1].size else 1
        chunks = dict(zip(terms[1 - small], arrays[1 - small].chunks, strict=True))
        like = {terms[small].index(x): chunks[x] for x in layout.inner}
        arrays[small] = arrays[small].rechunk(like, method="tasks")
    return arrays[0], arrays[1]


def _own_term(side: FusedSide) -> Term:
    """Return the letters of an operand in the order of its axes."""
    place = dict(zip(side.axes, side.term, strict=True))
    return tuple(place[axis] for axis in range(len(place)))


def _fuse_blocks(x: Any, side: FusedSide, inner: Term) -> Fused:
    """Fuse a dask array; return its chunks before that, too, for `split_blocks`.

    Both sides must have their contracted axes cut alike.
    """
    x = permute(x, side.axes)
    first = len(side.term) - side.rows - side.columns
    middle = first + side.rows
    for start, stop in ((first, middle), (middle, len(side.term))):
        if side.term[start:stop] != inner:
            x = _cut_first(x, start, stop)
    chunks = x.chunks
    if x.shape != side.shape:
        long = [i for i, size in enumerate(side.shape) if i < first or size != 1]
        x = _reshape(_drop_ones(x, first), [side.shape[i] for i in long])
        x = _put_ones(x, long, len(side.shape))
    return x, chunks


def _cut_first(x: Any, start: int, stop: int) -> Any:
    """Cut only the first long axis of a group, as finely as all of them were cut."""
    long = [axis for axis in range(start, stop) if x.shape[axis] != 1]
    pieces = prod(len(x.chunks[axis]) for axis in long[1:])
    if pieces <= 1:
        return x
    leading = max(1, max(x.chunks[long[0]]) // pieces)
    cut = {**dict.fromkeys(long[1:], -1), long[0]: leading}
    return x.rechunk(cut, method="tasks")


def _drop_ones(x: Any, first: int) -> Any:
    """Drop axes of length one behind the stack."""
    return x[
        tuple(
            0 if axis >= first and size == 1 else slice(None)
            for axis, size in enumerate(x.shape)
        )
    ]


def _put_ones(x: Any, long: Sequence[int], ndim: int) -> Any:
    """Put axes of length one beside those that are long."""
    return x[tuple(slice(None) if axis in long else None for axis in range(ndim))]


def _reshape(x: Any, shape: Sequence[int], chunks: AllChunks | None = None) -> Any:
    """Reshape block by block."""
    import dask.array as da

    if x.shape == tuple(shape):
        return x
    if hasattr(x, "expr"):
        text = "several axes become one, and dask's array expressions cannot do that"
        remedy = "Set array.query-planning to False in dask.config"
        raise PlanError(text, remedy, "no-reshape")
    return da.reshape_blockwise(x, tuple(shape), chunks=chunks)


def _join(chunks: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the chunks of axes that are fused block by block."""
    return tuple(map(prod, product(*chunks)))


def split_blocks(x: Any, layout: PairLayout, left: AllChunks, right: AllChunks) -> Any:
    """Split a lazy product, whose operands had these chunks before they were fused."""
    first = x.ndim - 2
    known = dict(zip(layout.left.term, left, strict=True))
    known.update(zip(layout.right.term, right, strict=True))
    # Stacks are cut as the product has cut them.
    known.update(zip(layout.result[:first], x.chunks[:first], strict=True))
    if x.shape != layout.split:
        chunks = [known[letter] for letter in layout.result]
        rows = len(set(layout.left.term) - set(layout.right.term)) + first
        # Matrices of a stack are whole.
        whole = _join(chunks[first:rows]), _join(chunks[rows:])
        x = x.rechunk((*x.chunks[:first], *whole), method="tasks")
        x = _drop_ones(x, first)
        long = [i for i, size in enumerate(layout.split) if i < first or size != 1]
        shape = tuple(layout.split[i] for i in long)
        x = _reshape(x, shape, tuple(chunks[i] for i in long))
        x = _put_ones(x, long, len(layout.split))
    return permute(x, layout.order)
