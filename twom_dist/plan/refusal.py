"""Refusals of plans that do not fit: how much is missing, and what would help."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from dask.utils import format_bytes

from ..errors import MemoryLimitError
from ..tiles.grid import Chunks, split_evenly
from .footprint import WorkerMemory
from .record import Plan

# Tiles of m x n x k for each worker up to which a remedy is tried before it is named:
# planning more takes seconds, and there more workers and smaller chunks help.
_TRIED = 2**17

_Sizes = tuple[Chunks, Chunks, Chunks]


def refuse(
    plan: Plan, replan: Callable[[_Sizes, int], Plan], *, leaving: bool
) -> MemoryLimitError:
    """Make the error of a plan that takes more than the workers have.

    `replan`: plans the same with other tiles and numbers of workers, fit or not;
    `leaving`: whether tiles of C leave as they are made.
    """
    memory = _needed(plan, leaving)
    budget, workers = plan.cluster.memory, plan.cluster.workers
    assert budget.limit is not None
    assert budget.tile_bytes is not None
    room = "no room" if budget.tile_bytes == 1 else format_bytes(budget.tile_bytes)
    taken = f" (the process takes {format_bytes(budget.taken_bytes)})"
    taken = "" if budget.kind == "device" else taken
    holders = "devices" if budget.kind == "device" else "workers"
    problem = (
        f"not enough memory: {holders} of {format_bytes(budget.limit)} have {room} for "
        f"tiles{taken}, and the fullest of {workers} needs "
        f"{format_bytes(memory.total)} ({format_bytes(memory.inputs)} for inputs, "
        f"{format_bytes(memory.outputs)} for results, "
        f"{format_bytes(memory.temporaries)} inside tasks)"
    )
    ways = [f"Give each at least {budget.least_limit(memory.total) // 2**20} MiB"]

    def helps(sizes: _Sizes, workers: int) -> bool:
        if workers * prod(map(len, sizes)) > _TRIED:
            # A task that reads its inputs takes the same on any number of workers.
            return not (plan.streams and workers > plan.cluster.workers)
        return _needed(replan(sizes, workers), leaving).total < memory.total

    # A job is refused only if its smallest wave does not fit: nobody reads the rest.
    if not budget.stretched and plan.mirrors:
        grid = plan.grid
        sizes = grid.m, grid.n, grid.k
        if helps(sizes, 2 * workers):
            ways.append("use more workers")
        # Halves may keep more threads busy at once, which quarters make up for.
        if any(helps(_cut(sizes, parts), workers) for parts in (2, 4)):
            ways.append("use smaller chunks")
    elif budget.stretched and workers > 1:
        home = "GPU" if budget.kind == "device" else "machine"
        ways.append(f"start fewer workers on each {home}")
    if budget.stretched and budget.tile_bytes > 1:
        ways.append("use smaller tiles")
    # Nothing inside of tasks goes to disk.
    if budget.kind == "product" and memory.temporaries < budget.tile_bytes // 2:
        ways.append("let dask spill (the setting twom-dist.refuse-memory: false)")
    error = MemoryLimitError(problem, ", or ".join(ways), "memory")
    error.needed = memory.total
    return error


def _needed(plan: Plan, leaving: bool) -> WorkerMemory:
    """Return what has to be there at once."""
    memory = plan.memory
    return replace(memory, outputs=memory.leaving) if leaving else memory


def _cut(sizes: _Sizes, parts: int) -> _Sizes:
    """Cut every tile into so many parts along each dimension."""
    m, n, k = (
        tuple(x for size in own for x in split_evenly(size, max(1, -(-size // parts))))
        for own in sizes
    )
    return m, n, k
