"""Stacks of dask arrays: whole matrices in a task, or one product after another."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import dask
import numpy as np
from dask.utils import parse_bytes

from ..kernels.family import empty_block, family_of, namespace
from ..kernels.room import try_with_less
from ..plan import LARGEST_TILE
from ..problem.matrices import is_dask
from ..problem.problem import Problem
from ..tiles.blocks import check_kind
from ..tiles.graph import running
from . import lazy, stacks
from .client import ensure_plugins

# The prefix that dashboards group the tasks by.
STAGE = "twom-stack"


def compute(problem: Problem) -> Any:
    """Return the lazy products of stacks, some of which are dask arrays.

    A matrix no larger than a tile is whole in a task: its chunks are gathered, and
    small matrices are computed together. Each larger one is a product like any other.
    """
    if max(problem.shape) <= LARGEST_TILE:
        ensure_plugins()
        return _by_blocks(problem)
    one_by_one = [lazy.compute(one) for one in list_matrices(problem)]
    words = problem.spec.words
    stacked = [
        _pile([x[word] if words == 2 else x for x in one_by_one], problem)
        for word in range(words)
    ]
    return tuple(stacked) if words == 2 else stacked[0]


def list_matrices(problem: Problem) -> Iterator[Problem]:
    """Pose the problem of each matrix."""
    given = problem.a, problem.b, problem.c
    for place in np.ndindex(*problem.stack):
        a, b, c = (None if x is None else _pick(x, place) for x in given)
        b = a if problem.spec.routine.matrices == 1 else b
        yield replace(problem, a=a, b=b, c=c, stack=())


def _pick(x: Any, place: tuple[int, ...]) -> Any:
    """Return the matrix at this place of the broadcast stack."""
    own = place[len(place) - (x.ndim - 2) :]
    sizes = x.shape[:-2]
    return x[tuple(i if size > 1 else 0 for size, i in zip(sizes, own, strict=True))]


def _pile(matrices: list[Any], problem: Problem) -> Any:
    import dask.array as da

    if not matrices:
        shape = *problem.stack, *problem.shape[:2]
        return da.zeros(shape, dtype=problem.dtype, chunks=shape)
    return da.stack(matrices).reshape(*problem.stack, *problem.shape[:2])


def _by_blocks(problem: Problem) -> Any:
    import dask.array as da

    spec, dtype, stack = problem.spec, problem.dtype, problem.stack
    m, n, _ = problem.shape
    given = [problem.a, *([] if spec.routine.matrices == 1 else [problem.b])]
    given += [] if problem.c is None else [problem.c]
    diag = problem.diag
    arrays = [_whole(x, stack) for x in given]
    # Small stacks are cut like large ones, or their products would be larger.
    chunks = _common_chunks(arrays, stack)
    axes = range(len(stack))
    arrays = [x.rechunk(dict(zip(axes, chunks, strict=True))) for x in arrays]
    family = family_of(arrays[0]._meta)
    words = () if spec.words == 1 else (spec.words,)
    template = replace(problem, a=None, b=None, c=None, diag=None, stack=())
    result = da.map_blocks(
        _compute_block,
        *arrays,
        dtype=dtype,
        chunks=(*chunks, (m,), (n,), *((x,) for x in words)),
        new_axis=[len(stack) + 2] if words else None,
        meta=_empty(family, dtype, len(stack) + 2 + len(words)),
        token=STAGE,
        template=template,
        dtypes=tuple(x.dtype for x in arrays),
        diag=diag.rechunk(-1) if is_dask(diag) else diag,
    )
    if not words:
        return result
    return tuple(result[..., word] for word in range(spec.words))


def _whole(x: Any, stack: tuple[int, ...]) -> Any:
    """Make a dask array of whole matrices, with all the axes in front."""
    import dask.array as da

    if not is_dask(x):
        # A task takes a block of it.
        x = lazy.as_dask(x, x.dtype, (*_auto_chunks(x.shape, x.dtype), *x.shape[-2:]))
    shape = *stack, *x.shape[-2:]
    if x.numblocks[-2:] != (1, 1):
        x = x.rechunk({x.ndim - 2: -1, x.ndim - 1: -1, **_cut_in_front(x)})
    return x if x.shape == shape else da.broadcast_to(x, shape)


def _cut_in_front(x: Any) -> dict[int, str]:
    """Cut the axes in front again where blocks of whole matrices become too large."""
    block = prod(map(max, x.chunks[:-2])) * prod(x.shape[-2:]) * x.dtype.itemsize
    if block <= parse_bytes(dask.config.get("array.chunk-size")):
        return {}
    return dict.fromkeys(range(x.ndim - 2), "auto")


def _auto_chunks(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, ...]:
    from dask.array.core import normalize_chunks

    if 0 in shape:
        return tuple((size,) for size in shape[:-2])
    limits = (*["auto"] * (len(shape) - 2), -1, -1)
    chunks: tuple[Any, ...] = normalize_chunks(limits, shape=shape, dtype=dtype)
    return chunks[:-2]


def _common_chunks(arrays: list[Any], stack: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Cut the axes in front wherever one of the arrays is cut."""
    chunks = []
    for axis in range(len(stack)):
        ends = sorted({end for x in arrays for end in np.cumsum(x.chunks[axis])})
        starts = [0, *ends[:-1]]
        sizes = [int(end - start) for start, end in zip(starts, ends, strict=True)]
        chunks.append(tuple(sizes))
    return chunks


def _empty(family: Any, dtype: Any, ndim: int) -> Any:
    return empty_block(family, dtype).reshape((0,) * ndim)


def _compute_block(
    *blocks: Any, template: Problem, dtypes: tuple[Any, ...], diag: Any
) -> Any:
    """Compute the products of one block of each stack."""
    template = replace(template, diag=diag)
    # Each attempt is a task of its own, which ends by giving back what it keeps.
    return try_with_less(partial(_run_block, blocks, template, dtypes))


def _run_block(
    given: tuple[Any, ...], template: Problem, dtypes: tuple[Any, ...]
) -> Any:
    spec, family = template.spec, family_of(given[0])
    with running(spec):
        blocks = [
            check_kind(x, family, dtype) for x, dtype in zip(given, dtypes, strict=True)
        ]
        a = blocks.pop(0)
        b = a if spec.routine.matrices == 1 else blocks.pop(0)
        c = blocks.pop(0) if blocks else None
        found = stacks.compute(replace(template, a=a, b=b, c=c, stack=a.shape[:-2]))
        return found if spec.words == 1 else namespace(a).stack(found, axis=-1)
