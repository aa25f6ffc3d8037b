"""Refusals of plans that do not fit: how much is missing, and what would do."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, prod

from dask.utils import format_bytes

from ..errors import MemoryLimitError
from ..tiles.grid import Chunks
from .chunks import cut_sizes
from .footprint import WorkerMemory
from .record import Plan
from .show import name_count

# Tiles of m x n x k for each worker up to which a way out is tried, since planning more
# takes seconds; what was not tried is not named.
_TRIED = 2**17
# Factors that are tried: of workers, and by which sides of tiles are divided.
_FACTORS = (2, 4, 8)
_DIVISORS = (*_FACTORS, 16, 32)
# Smaller tiles spend most of their time on the way.
_LEAST_SIDE = 64

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
    most, acts = budget.most_bytes, "spills" if budget.kind == "job" else "pauses"
    taken = f"the process takes {format_bytes(budget.taken_bytes)}"
    taken = f" (dask {acts} at {format_bytes(most)}, and {taken})"
    holder = "worker"
    if budget.kind == "device":
        holder, taken = "device", ""
    have = f"{holder}s of {{}} have"
    fullest = f"the fullest of {name_count(workers, holder)}"
    if budget.kind == "machine":
        have, fullest, taken = "this machine of {} has", "the product", ""
    problem = (
        f"not enough memory: {have.format(format_bytes(budget.limit))} {room} for "
        f"tiles{taken}, and {fullest} needs "
        f"{format_bytes(memory.total)} ({format_bytes(memory.inputs)} for inputs, "
        f"{format_bytes(memory.outputs)} for results, "
        f"{format_bytes(memory.temporaries)} inside tasks)"
    )

    def need(sizes: _Sizes, workers: int) -> float:
        if workers * prod(map(len, sizes)) > _TRIED:
            return inf
        return _needed(replan(sizes, workers), leaving).total

    least = budget.least_limit(memory.total) // 2**20
    ways = [f"Give each at least {least} MiB"]
    if budget.kind == "machine":
        ways = [f"Take a machine of at least {least} MiB"]
    # A job is refused only if its smallest wave does not fit: nobody reads the rest.
    if budget.stretched or plan.mirrors:
        ways += _find_ways(plan, need)
    # Nothing inside of tasks goes to disk.
    if budget.kind == "product" and memory.temporaries < budget.tile_bytes // 2:
        ways.append("let dask spill (the setting twom-dist.refuse-memory: false)")
    if budget.kind == "machine":
        ways.append("try it all the same (twom-dist.refuse-memory: false)")
    error = MemoryLimitError(problem, ", or ".join(ways), "memory")
    error.needed = memory.total
    return error


def _find_ways(plan: Plan, need: Callable[[_Sizes, int], float]) -> Iterator[str]:
    """Name other numbers of workers and other tiles that fit, the first of each."""
    budget, workers, grid = plan.cluster.memory, plan.cluster.workers, plan.grid
    sizes, usable = (grid.m, grid.n, grid.k), budget.tile_bytes
    assert budget.limit is not None
    assert usable is not None
    for factor in _FACTORS:
        # The wave of a job is as small as it can be on any number of workers.
        if budget.stretched or budget.kind == "machine":
            break
        if need(sizes, workers * factor) <= usable:
            yield f"use {workers * factor} workers"
            break
    for fewer in dict.fromkeys(max(1, workers // factor) for factor in _FACTORS):
        # The workers of a job share the memory of their machines.
        if fewer == workers or not budget.stretched or budget.kind != "job":
            break
        limit = budget.limit * workers // fewer // 2**20 * 2**20
        room = replace(budget, limit=limit).tile_bytes
        if room is not None and need(sizes, fewer) <= room:
            others = name_count(fewer, "worker")
            yield f"start {others} of {limit // 2**20} MiB instead of {workers}"
            break
    sides = [x for x in map(max, sizes) if x >= _LEAST_SIDE]
    for side in _divide(max(map(max, sizes))):
        # Whoever gives a job tiles of 500 has them along m and n, too.
        if budget.stretched and side > min(sides, default=side):
            continue
        # A wave off the diagonal of an update needs two rows of tiles.
        wave = 2 if plan.spec.routine.triangle else 1
        most = None if plan.streams or not budget.stretched else wave
        cut = _cut(sizes, side, most)
        if side >= _LEAST_SIDE and need(cut, workers) <= usable:
            if budget.stretched:
                yield f"use tiles of {side}"
            else:
                rows, columns = (min(side, max(own)) for own in (sizes[0], sizes[2]))
                own = (rows, columns) if plan.spec.op_a == "N" else (columns, rows)
                made = f"where they are made: A = da.from_array(A, chunks={own})"
                yield f"use chunks of {side} at most, {made}"
            break


def _divide(largest: int) -> Iterator[int]:
    """Divide the largest side, evenly where a number close by does: files are chunked.

    Examples
    --------
    >>> list(_divide(1600)), next(_divide(1563))
    ([800, 400, 200, 100, 50], 521)
    """
    for factor in _DIVISORS:
        most = -(-largest // factor)
        even = (x for x in range(most, most // 2, -1) if largest % x == 0)
        yield next(even, most)


def _needed(plan: Plan, leaving: bool) -> WorkerMemory:
    """Return what has to be there at once."""
    memory = plan.memory
    return replace(memory, outputs=memory.leaving) if leaving else memory


def _cut(sizes: _Sizes, side: int, wave: int | None) -> _Sizes:
    """Cut every tile into tiles of this side, as files and arrays are cut.

    `wave`: the least rows of tiles to keep of the result, else those of before; None
    keeps all.
    """
    m, n, k = (tuple(x for size in own for x in cut_sizes(size, side)) for own in sizes)
    if wave is None:
        return m, n, k
    return m[: max(wave, len(sizes[0]))], n[: max(wave, len(sizes[1]))], k
