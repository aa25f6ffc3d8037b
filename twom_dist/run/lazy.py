"""Results of dask arrays: aligned, planned, and left lazy."""

from dataclasses import replace
from operator import getitem
from typing import Any

import numpy as np
from dask.utils import format_bytes

from ..config import flag_setting
from ..errors import MemoryLimitError, MemoryWarning, warn_caller
from ..kernels.family import empty_block, family_of
from ..plan import LARGEST_TILE, Cluster, Plan, cut_evenly
from ..plan.memory import MemoryBudget
from ..problem.matrices import Header, is_dask
from ..problem.problem import Problem
from ..tiles.blocks import cast_block
from ..tiles.spec import SIDES, Spec
from .align import align_inner, align_result, op_chunks
from .client import current_cluster, ensure_placement
from .collection import product_array, remade_array
from .holding import Inputs, plan_inputs


def compute(problem: Problem) -> Any:
    """Return the result as a lazy dask array."""
    a, b, c = align(problem)
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
    ensure_placement()
    if plan.streams and inputs.sources is not None:
        out = remade_array(a, b, c, inputs.sources, plan.grid, plan.spec)
    else:
        out = product_array(a, b, c, plan.grid, plan.spec)
    if plan.spec.words == 1:
        return out
    # Blocks are (2, m, n), whatever the array says of them.
    return tuple(
        out.map_blocks(getitem, x, dtype=out.dtype, meta=out._meta)
        for x in range(plan.spec.words)
    )


def plan_aligned(
    spec: Spec, inputs: Inputs, cluster: Cluster, *, strict: bool = True
) -> Plan:
    """Plan the product of aligned arrays."""
    if spec.empty:
        cluster = replace(cluster, memory=MemoryBudget())
    (m, k), n = op_chunks(inputs.a, spec.op_a), op_chunks(inputs.b, spec.op_b)[1]

    def can_stream() -> bool:
        return inputs.sources is not None

    spec = replace(spec, lazy=True)
    return plan_inputs(spec, (m, n, k), cluster, can_stream, strict=strict)


def _warn_of_results(plan: Plan) -> None:
    """Warn of a result that the workers can only hold in parts."""
    usable = plan.cluster.memory.tile_bytes
    if usable is None or plan.memory.total <= usable:
        return
    need, room = map(format_bytes, (plan.memory.total, usable))
    warn_caller(
        f"the workers cannot hold all of the result: the fullest one would need {need} "
        f"and has {room} for tiles. Write it (to_zarr) or reduce it (sum) as it comes, "
        "or dask spills",
        MemoryWarning,
    )


def align(problem: Problem) -> tuple[Any, Any, Any]:
    """Make A, B and C dask arrays of the result's dtype that are cut alike."""
    spec = problem.spec
    left, right = map(spec.tile_dtype, SIDES)
    a_chunks, b_chunks = _choose_chunks(problem)
    a = as_dask(problem.a, left, a_chunks)
    if spec.twins:
        b = a
    else:
        b = as_dask(problem.b, right, b_chunks)
        if not spec.routine.triangle:
            a, b = align_inner(a, b, spec.op_a, spec.op_b)
        elif a.chunks != b.chunks:
            b = b.rechunk(a.chunks, method="tasks")
    if problem.c is None:
        return a, b, None
    chunks = op_chunks(a, spec.op_a)[0], op_chunks(b, spec.op_b)[1]
    return a, b, align_result(as_dask(problem.c, problem.dtype, chunks), chunks)


def _choose_chunks(problem: Problem) -> tuple[Any, Any]:
    """Choose chunks for unchunked operands: those of the other, else large tiles."""
    a, b, c, spec = problem.a, problem.b, problem.c, problem.spec
    if spec.routine.triangle:
        chunked = next((x.chunks for x in (a, b) if is_dask(x)), None)
        return (chunked or (LARGEST_TILE, LARGEST_TILE),) * 2
    tile = max(1, *map(max, c.chunks)) if is_dask(c) else LARGEST_TILE
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
        import dask.array as da

        if isinstance(x, Header):
            # The shape of a plan, which is never computed.
            for size in x.shape:
                cut_evenly(size, LARGEST_TILE)
            x = da.zeros(x.shape, dtype=x.dtype, chunks=chunks)
        else:
            x = da.from_array(x, chunks=chunks)
    if x.dtype == dtype:
        return x
    # dask's own astype converts an empty block, which takes a device if it is CuPy's.
    family = family_of(x._meta)
    meta = empty_block(family, dtype)
    return x.map_blocks(cast_block, family, x.dtype, dtype, dtype=dtype, meta=meta)
