"""Results of dask arrays: aligned, planned, and left lazy."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
from dask.utils import format_bytes

from ..config import flag_setting
from ..errors import MemoryLimitError, MemoryWarning, PlanError, warn_caller
from ..kernels.family import empty_block, family_of
from ..plan import LARGEST_TILE, Cluster, Plan, cut_evenly
from ..plan.cluster import MemoryBudget
from ..problem.matrices import Header, dask_array, is_dask
from ..problem.problem import Problem
from ..problem.sizes import is_unknown, same_sizes
from ..tiles.blocks import cast_block
from ..tiles.dask.graph import Operands
from ..tiles.grid import Chunks
from ..tiles.spec import SIDES, Spec, is_straight
from ..typing import Op
from ..workers.client import current_cluster, ensure_plugins, warn_of_idle_gpus
from .collection import product_array
from .locality import follow_holders
from .making import weigh
from .sources import Inputs, plan_inputs

_COMPUTE_SIZES = "Call the method compute_chunk_sizes() of the arrays first"


def compute(problem: Problem) -> Any:
    """Return the result as a lazy dask array."""
    operands = align(problem)
    a, b = operands[:2]
    cluster, inputs = current_cluster(problem.spec.engine), Inputs(a, b)
    try:
        plan = plan_aligned(problem.spec, inputs, cluster)
    except MemoryLimitError as error:
        if flag_setting("refuse-memory"):
            raise
        warn_caller(error.problem, MemoryWarning)
        plan = plan_aligned(problem.spec, inputs, cluster, strict=False)
    else:
        _warn_of_results(plan)
    ensure_plugins()
    if family_of(a._meta) == "numpy":
        warn_of_idle_gpus()
    # Sizes that are unknown, not as they were estimated.
    (m, _), n = op_chunks(a, plan.spec.op_a), op_chunks(b, plan.spec.op_b)[1]
    grid = follow_holders(replace(plan.grid, m=m, n=n), plan.spec, a, b)
    sources = inputs.sources if plan.streams else None
    out = product_array(operands, grid, plan.spec, sources=sources)
    if plan.spec.components == 1:
        return out
    # Blocks are (2, m, n), whatever the array says of them.
    return tuple(
        out.map_blocks(getitem, x, dtype=out.dtype, meta=out._meta)
        for x in range(plan.spec.components)
    )


def plan_aligned(
    spec: Spec,
    inputs: Inputs,
    cluster: Cluster,
    *,
    strict: bool = True,
    explain: bool = False,
) -> Plan:
    """Plan the product of aligned arrays; unknown sizes are estimated.

    `strict` is that of `plan_inputs`, `explain` that of `weigh`.
    """
    if spec.empty:
        cluster = replace(cluster, memory=MemoryBudget())
    (m, k), n = op_chunks(inputs.a, spec.op_a), op_chunks(inputs.b, spec.op_b)[1]
    unknown = has_unknown((m, n))
    if unknown:
        if spec.empty or (spec.routine.triangle and spec.uplo != "full"):
            problem = "chunks of the inputs, and so tiles of zeros, are of unknown size"
            raise PlanError(problem, _COMPUTE_SIZES, "unknown-chunks")
        # As large as the largest chunk along k.
        m, n = (tuple(max(k) if is_unknown(x) else x for x in own) for own in (m, n))

    def able() -> bool:
        return inputs.sources is not None

    spec = replace(spec, lazy=True)
    make = partial(plan_inputs, spec, (m, n, k), cluster, able)
    plan = make(strict=strict)
    if not (unknown or spec.empty):
        stream = partial(make, strict=False, choice="stream")
        plan = weigh(plan, inputs, stream, explain)
    if spec.exact and unknown:
        # Integers have no exponents to tell the size of a sum: one task adds all parts.
        grid = replace(plan.grid, layers=((plan.grid.panels,),))
        plan = replace(plan, grid=grid)
    return plan


def _warn_of_results(plan: Plan) -> None:
    """Warn of a result that the workers can only hold in parts."""
    if plan.fits(leaving=False):
        return
    sizes = plan.memory.total, plan.cluster.memory.tile_bytes
    need, room = map(format_bytes, sizes)
    problem = f"the fullest one would need {need} and has {room} for tiles"
    holder, otherwise = "the workers", "dask spills"
    if plan.cluster.memory.kind == "machine":
        problem = f"it would need {need} and has {room} for tiles"
        holder, otherwise = "this machine", "memory runs out"
    warn_caller(
        f"{holder} cannot hold all of the result: {problem}. Write it (to_zarr) or "
        f"reduce it (sum) as it comes, or {otherwise}",
        MemoryWarning,
    )


def align(problem: Problem) -> Operands:
    """Make A, B and C dask arrays of the result's dtype that are cut alike."""
    spec = problem.spec
    left, right = map(spec.tile_dtype, SIDES)
    a_chunks, b_chunks = _choose_chunks(problem)
    a = as_dask(problem.a, left, a_chunks)
    if spec.routine.matrices == 1:
        b = a
    else:
        b = as_dask(problem.b, right, b_chunks)
        if not spec.routine.triangle:
            a, b = align_inner(a, b, spec.op_a, spec.op_b)
        else:
            b = align_result(b, a.chunks, "B")
    m, n = op_chunks(a, spec.op_a)[0], op_chunks(b, spec.op_b)[1]
    c = problem.c
    if c is not None:
        c = align_result(as_dask(c, problem.dtype, (m, n)), (m, n))
    return Operands.of(problem, a, b, c)


def _choose_chunks(problem: Problem) -> tuple[Any, Any]:
    """Choose chunks for unchunked operands: those of the other, else large tiles."""
    a, b, c, spec = problem.a, problem.b, problem.c, problem.spec
    if spec.routine.triangle:
        chunked = next((x.chunks for x in (a, b) if is_dask(x)), None)
        return (chunked or (LARGEST_TILE, LARGEST_TILE),) * 2
    tile: Any = LARGEST_TILE
    if is_dask(c) and not has_unknown(c.chunks):
        tile = max(1, *map(max, c.chunks))
    k = tile
    if is_dask(a):
        k = op_chunks(a, spec.op_a)[1]
    elif is_dask(b):
        k = op_chunks(b, spec.op_b)[0]
    return (
        (tile, k) if spec.op_a == "N" else (k, tile),
        (k, tile) if spec.op_b == "N" else (tile, k),
    )


def as_dask(x: Any, dtype: np.dtype[Any], chunks: Any) -> Any:
    """Promote an array to a dask array; a NumPy one is cut into the given chunks."""
    if not is_dask(x):
        if has_unknown(x for x in chunks if isinstance(x, tuple)):
            problem = "an array in memory cannot be cut like chunks of unknown size"
            raise PlanError(problem, _COMPUTE_SIZES, "unknown-chunks")
        if isinstance(x, Header):
            # The shape of a plan, which is never computed.
            for size in x.shape:
                cut_evenly(size, LARGEST_TILE)
            x = dask_array().zeros(x.shape, dtype=x.dtype, chunks=chunks)
        else:
            x = dask_array().from_array(x, chunks=chunks)
    if x.dtype == dtype:
        return x
    # dask's own astype converts an empty block, which takes a device if it is CuPy's.
    family = family_of(x._meta)
    meta = empty_block(family, dtype)
    return x.map_blocks(cast_block, family, x.dtype, dtype, dtype=dtype, meta=meta)


def op_chunks(x: Any, op: Op) -> tuple[Chunks, Chunks]:
    """Chunks of op(x)."""
    rows, columns = x.chunks
    return (rows, columns) if op == "N" else (columns, rows)


def align_inner(a: Any, b: Any, op_a: Op, op_b: Op) -> tuple[Any, Any]:
    """Rechunk the smaller operand along k where the two are cut differently.

    It uses tasks: a peer-to-peer shuffle needs a cluster, and barriers delay products.
    """
    a_k, b_k = op_chunks(a, op_a)[1], op_chunks(b, op_b)[0]
    if a_k == b_k:
        return a, b
    if a.size < b.size:
        return a.rechunk({int(is_straight("left", op_a)): b_k}, method="tasks"), b
    return a, b.rechunk({int(is_straight("right", op_b)): a_k}, method="tasks")


def align_result(c: Any, chunks: tuple[Chunks, Chunks], name: str = "C") -> Any:
    """Rechunk C like the product, or the B of an update like its A.

    Chunks of unknown size are taken to be alike if they are as many.
    """
    if c is None or c.chunks == chunks:
        return c
    if has_unknown(chunks) or has_unknown(c.chunks):
        both = zip(c.chunks, chunks, strict=True)
        if all(len(x) == len(y) and same_sizes(x, y) for x, y in both):
            return c
        problem = f"{name} would have to be rechunked, with chunks of unknown size"
        raise PlanError(problem, _COMPUTE_SIZES, "unknown-chunks")
    return c.rechunk(chunks, method="tasks")


def has_unknown(chunks: Iterable[Iterable[Any]]) -> bool:
    """Tell whether some chunks are of unknown size."""
    return any(is_unknown(size) for sizes in chunks for size in sizes)
