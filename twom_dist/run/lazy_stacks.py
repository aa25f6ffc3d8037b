"""Stacks of dask arrays: many matrices in a task, or one product after another.

A task takes as many matrices of an input chunk as its worker has room for. k is not
cut, whatever its chunks were, except in exact products of integers: there each chunk
along k is multiplied on its worker, and the exact products are added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from ..errors import KernelError
from ..kernels.device_memory import try_with_less
from ..kernels.family import empty_block, family_of, namespace
from ..plan import LARGEST_TILE, Cluster
from ..problem.matrices import is_dask
from ..problem.problem import Problem
from ..tiles.blocks import TRUE_CHUNKS, check_kind
from ..tiles.dask.calls import run_scope
from ..tiles.grid import split_evenly
from ..tiles.spec import SIDES, Spec, as_rows, is_straight, load_engine
from ..workers.client import current_cluster, ensure_plugins
from . import lazy, stacks

STAGE = "twom-stack"  # the prefix that dashboards group the tasks by
# Chunks that a thread has room for: a task's, their conversions, and those read ahead.
_BLOCKS_OF_THREAD = 4

Chunks = tuple[int, ...]
Arrays = list[Any]


def compute(problem: Problem) -> Any:
    """Return the lazy products of stacks, some of which are dask arrays."""
    room = find_room(problem, current_cluster(problem.spec.engine))
    if room is None:
        return _one_by_one(problem)
    ensure_plugins()
    return _by_blocks(problem, room)


def find_room(problem: Problem, cluster: Cluster) -> int | None:
    """Return the bytes of matrices that a task takes; None if they fit into none."""
    m, n, k = problem.shape
    if max(m, n) > LARGEST_TILE:
        return None
    known = [x for x in (problem.a, problem.b) if is_dask(x)]
    largest = (prod(map(max, x.chunks)) * x.dtype.itemsize for x in known)
    room = max(parse_bytes(dask.config.get("array.chunk-size")), *largest, 0)
    tiles = cluster.memory.tile_bytes
    if tiles is not None:
        room = min(room, tiles // (_BLOCKS_OF_THREAD * cluster.threads))
    own = 1 if _adds_pieces(problem.spec) else k
    return room if own * _column_bytes(problem) <= room else None


def _adds_pieces(spec: Spec) -> bool:
    """Tell whether products of pieces along k may be added.

    The two of her2k and syr2k are scaled, and rounded, by themselves. Sums of two
    doubles are no longer whole where only their first components are added.
    """
    one_component = spec.exact and spec.components == 1
    return one_component and not (spec.routine.sums or spec.empty)


def _column_bytes(problem: Problem) -> int:
    """Return the bytes, as stored, of a column of op(A) and of a row of op(B), or 1."""
    m, n, _ = problem.shape
    found: int = m * problem.a.dtype.itemsize
    if problem.spec.routine.matrices > 1:
        found += n * problem.b.dtype.itemsize
    return max(1, found)  # matrices may have no rows


def _one_by_one(problem: Problem) -> Any:
    components, shape = problem.spec.components, (*problem.stack, *problem.shape[:2])
    found = [lazy.compute(one) for one in list_matrices(problem)]
    each = [*zip(*found, strict=True)] if components == 2 else [found]
    stacked = [da.stack([*own]).reshape(shape) for own in each if own]
    if not found:
        stacked = [da.zeros(shape, dtype=problem.dtype, chunks=shape)] * components
    return tuple(stacked) if components == 2 else stacked[0]


def list_matrices(problem: Problem) -> Iterator[Problem]:
    """Pose the problem of each matrix."""
    given = problem.a, problem.b, problem.c
    for place in np.ndindex(*problem.stack):
        a, b, c = (None if x is None else _pick(x, place) for x in given)
        b = a if problem.spec.routine.matrices == 1 else b
        yield replace(problem, a=a, b=b, c=c, stack=())


def _pick(x: Any, place: tuple[int, ...]) -> Any:
    sizes = x.shape[:-2]
    own = place[len(place) - len(sizes) :]
    return x[tuple(i if size > 1 else 0 for size, i in zip(sizes, own, strict=True))]


def _by_blocks(problem: Problem, room: int) -> Any:
    spec, (m, n, k) = problem.spec, problem.shape
    given = [problem.a, *([] if spec.routine.matrices == 1 else [problem.b])]
    given += [] if problem.c is None else [problem.c]
    stack = _cut_stack(given, problem.stack)
    arrays = [_as_stack(x, problem.stack, stack) for x in given]
    operands, added = arrays[: spec.routine.matrices], arrays[spec.routine.matrices :]
    steps: Chunks = (k,)
    if _adds_pieces(spec):
        sides = zip(operands, SIDES, strict=False)
        cuts = [x.chunks[_inner(x.ndim, spec, side)] for x, side in sides]
        steps = _cut_at_most(_join(cuts), max(1, room // _column_bytes(problem)))
    each = max(1, *steps) * _column_bytes(problem)
    fine = _cut_matrices(stack, max(1, room // each))
    for i, (x, side) in enumerate(zip(operands, SIDES, strict=False)):
        chunks = [*fine, *((size,) for size in x.shape[-2:])]
        chunks[_inner(x.ndim, spec, side)] = steps
        operands[i] = x.rechunk(tuple(chunks))
    added = [x.rechunk((*fine, (m,), (n,))) for x in added]
    if len(steps) == 1:
        found = _multiply(problem, spec, operands, added)
    else:
        found = _add_pieces(problem, operands, added)
    # Tasks may have to be smaller than the chunks that there were.
    found = found.rechunk((*stack, *found.chunks[len(stack) :]))
    if spec.components == 1:
        return found
    return tuple(found[..., component] for component in range(spec.components))


def _add_pieces(problem: Problem, operands: list[Any], added: list[Any]) -> Any:
    """Add exact products of pieces along k, which a double holds; then scale them."""
    spec = problem.spec
    double = np.dtype("c16" if problem.dtype.kind == "c" else "f8")
    plain = replace(spec, dtype=double.str, alpha=1, beta=0)
    total = _multiply(problem, plain, operands, []).sum(axis=0)
    if (spec.alpha, spec.beta, problem.dtype) == (1, 0, double):
        return total
    family = family_of(total._meta)
    meta = _empty(family, problem.dtype, total.ndim)
    return da.map_blocks(
        _finish, total, *added, spec=spec, dtype=problem.dtype, meta=meta, token=STAGE
    )


def _finish(total: Any, c: Any = None, *, spec: Spec) -> Any:
    """Scale sums and add C, as decoding does."""
    with run_scope(spec):
        engine = load_engine(spec)
        # Devices take both of one dtype: in double, to round once.
        c = None if c is None else c.astype(total.dtype, copy=False)
        tile = engine.scale_and_add(total, spec.alpha, spec.beta, c, total.dtype)
        if tile.dtype != spec.dtype:
            with np.errstate(over="ignore"):
                # Zeros are positive, also those of what is too small.
                tile = tile.astype(spec.dtype) + 0
        if not spec.routine.triangle:
            return tile
        conjugate = spec.routine.hermitian
        close = engine.symmetrise_diagonal_tile
        return close(tile, conjugate=conjugate, uplo=spec.uplo)


def _multiply(problem: Problem, spec: Spec, operands: Arrays, added: Arrays) -> Any:
    """Multiply block by block; pieces along k come along an axis in front."""
    n, dtype = problem.shape[1], np.dtype(spec.dtype)
    front = [f"stack {i}" for i in range(len(problem.stack))]
    named, pieces = [], operands[0].chunks[_inner(operands[0].ndim, spec, "left")]
    for x, side, rows in zip(operands, SIDES, "mn", strict=False):
        own = [rows, "k"] if is_straight(side, spec.op(side)) else ["k", rows]
        named += [x, [*front, *own]]
    named += [y for x in added for y in (x, [*front, "m", "n"])]
    several = ["k"] if len(pieces) > 1 else []
    components = ["component"] if spec.components > 1 else []
    new = {"n": n} if spec.routine.matrices == 1 else {}
    new |= dict.fromkeys(components, spec.components)
    family = family_of(operands[0]._meta)
    return da.blockwise(
        _compute_block,
        [*several, *front, "m", "n", *components],
        *named,
        dtype=dtype,
        new_axes=new,
        adjust_chunks=dict.fromkeys(several, 1),
        # It would copy even single blocks.
        concatenate=None,
        align_arrays=False,
        meta=_empty(family, dtype, len(several) + len(front) + 2 + len(components)),
        token=STAGE,
        template=replace(problem, spec=spec, a=None, b=None, c=None),
        dtypes=tuple(x.dtype for x in (*operands, *added)),
        in_pieces=bool(several),
    )


def _inner(ndim: int, spec: Spec, side: Any) -> int:
    straight = is_straight(side, spec.op(side))
    return ndim - 1 if straight else ndim - 2


def _cut_stack(given: Sequence[Any], stack: tuple[int, ...]) -> list[Chunks]:
    """Cut the axes in front wherever one of the dask arrays is cut."""
    known = [x for x in given if is_dask(x)]
    if not known and 0 not in (shape := (*stack, *given[0].shape[-2:])):
        limits = (*["auto"] * len(stack), -1, -1)
        chosen = da.core.normalize_chunks(limits, shape=shape, dtype=given[0].dtype)
        return [*chosen[: len(stack)]]
    chunks = []
    for axis, size in enumerate(stack):
        places = [x.ndim - 2 - len(stack) + axis for x in known]
        cuts = [x.chunks[i] for x, i in zip(known, places, strict=True) if i >= 0]
        chunks.append(_join([x for x in cuts if sum(x) == size] or [(size,)]))
    return chunks


def _as_stack(x: Any, stack: tuple[int, ...], chunks: list[Chunks]) -> Any:
    """Make a dask array with all the axes in front."""
    if not is_dask(x):
        # A task takes a block of it.
        own = x.shape[:-2]
        cut = zip(own, chunks[len(stack) - len(own) :], strict=True)
        front = (y if sum(y) == size else (size,) for size, y in cut)
        x = lazy.as_dask(x, x.dtype, (*front, *x.shape[-2:]))
    shape = *stack, *x.shape[-2:]
    return x if x.shape == shape else da.broadcast_to(x, shape)


def _join(cuts: Sequence[Chunks]) -> Chunks:
    """Cut an axis wherever one of several arrays is cut."""
    ends = sorted({int(end) for x in cuts for end in np.cumsum(x)})
    starts = [0, *ends[:-1]]
    return tuple(end - start for start, end in zip(starts, ends, strict=True))


def _cut_at_most(chunks: Chunks, largest: int) -> Chunks:
    return tuple(x for size in chunks for x in split_evenly(size, largest))


def _cut_matrices(chunks: list[Chunks], most: int) -> list[Chunks]:
    """Cut a stack so that no block has more than `most` matrices."""
    found = []
    for axis in reversed(chunks):
        found.append(_cut_at_most(axis, most))
        most = max(1, most // max(1, *found[-1]))
    return found[::-1]


def _empty(family: Any, dtype: Any, ndim: int) -> Any:
    return empty_block(family, dtype).reshape((0,) * ndim)


def _compute_block(
    *blocks: Any, template: Problem, dtypes: tuple[Any, ...], in_pieces: bool
) -> Any:
    # dask gives lists along an axis that goes, which is that of k.
    blocks = tuple(x[0] if isinstance(x, list) else x for x in blocks)
    # Each attempt is a task of its own, which ends by giving back what it keeps.
    found = try_with_less(partial(_run_block, blocks, template, dtypes))
    return found[np.newaxis] if in_pieces else found


def _run_block(given: Any, template: Problem, dtypes: Any) -> Any:
    spec, family = template.spec, family_of(given[0])
    with run_scope(spec):
        both = zip(given, dtypes, strict=True)
        blocks = [check_kind(x, family, dtype) for x, dtype in both]
        k = _check_shapes(blocks, template)
        a = blocks.pop(0)
        b = a if spec.routine.matrices == 1 else blocks.pop(0)
        c = blocks.pop(0) if blocks else None
        shape = *template.shape[:2], k
        one = replace(template, spec=replace(spec, k=k), shape=shape)
        found = stacks.compute(replace(one, a=a, b=b, c=c, stack=a.shape[:-2]))
        return found if spec.components == 1 else namespace(a).stack(found, axis=-1)


def _check_shapes(blocks: list[Any], template: Problem) -> int:
    """Return the k of blocks; raise unless these are what their arrays promise."""
    spec, (m, n, _) = template.spec, template.shape
    ndim = len(template.stack) + 2
    if all(x.ndim == ndim for x in blocks):
        count = spec.routine.matrices
        sides = zip(blocks[:count], SIDES, strict=False)
        found = [as_rows(x, side, spec.op(side)).shape for x, side in sides]
        found += [x.shape for x in blocks[count:]]
        *stack, _, k = found[0]
        wanted = [(m, k), (n, k), (m, n)]
        del wanted[count:2]
        if found == [(*stack, *x) for x in wanted[: len(found)]]:
            return int(k)
    shapes = ", ".join(str(x.shape) for x in blocks)
    problem = f"blocks have the shapes {shapes}, but their dask arrays promise others"
    raise KernelError(problem, TRUE_CHUNKS, "block-shape")
