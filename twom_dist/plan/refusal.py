"""Refusals of plans that do not fit: how much is missing, and what would do."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from dask.utils import format_bytes

from ..errors import MemoryLimitError
from ..tiles.grid import Chunks
from .chunks import cut_sizes
from .planner import make_plan
from .record import Plan
from .show import name_count

# Tiles of m x n x k, for each worker, up to which smaller ones are tried, since
# planning more takes longer than milliseconds; what was not tried is not named.
_TRIED = 2**14
# Divisors of the sides of tiles that are tried.
_DIVISORS = (2, 4, 8, 16, 32)
# Smaller tiles spend most of their time on the way.
_LEAST_SIDE = 64

_Sizes = tuple[Chunks, Chunks, Chunks]


def check_fit(plan: Plan, *, leaving: bool = False) -> Plan:
    """Return a plan that the workers have room for; refuse others, with what would do.

    `leaving`: whether tiles of C leave as they are made.
    """
    if plan.fits(leaving=leaving):
        return plan
    memory, budget = plan.memory, plan.cluster.memory
    if leaving:
        memory = replace(memory, outputs=memory.leaving)
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
    fullest = f"the fullest of {name_count(plan.cluster.workers, holder)}"
    if budget.kind == "machine":
        have, fullest, taken = "this machine of {} has", "the product", ""
    problem = (
        f"not enough memory: {have.format(format_bytes(budget.limit))} {room} for "
        f"tiles{taken}, and {fullest} needs "
        f"{format_bytes(memory.total)} ({format_bytes(memory.inputs)} for inputs, "
        f"{format_bytes(memory.outputs)} for results, "
        f"{format_bytes(memory.temporaries)} inside tasks)"
    )
    least = budget.least_limit(memory.total) // 2**20
    on_machine = budget.kind == "machine"
    ways = [
        f"{'Take a machine of' if on_machine else 'Give each'} at least {least} MiB"
    ]
    # A job is refused only if its smallest wave does not fit: nobody reads the rest.
    if budget.stretched or not plan.job:
        ways += filter(None, [_find_smaller(plan, leaving)])
    # Nothing inside of tasks goes to disk.
    if budget.kind == "product" and memory.temporaries < budget.tile_bytes // 2:
        ways.append("let dask spill (the setting twom-dist.refuse-memory: false)")
    if on_machine:
        ways.append("try it all the same (twom-dist.refuse-memory: false)")
    error = MemoryLimitError(problem, ", or ".join(ways), "memory")
    error.needed = memory.total
    raise error


def _find_smaller(plan: Plan, leaving: bool) -> str:
    """Name the largest smaller tiles that fit; empty if none of a few sizes does."""
    grid, stretched = plan.grid, plan.cluster.memory.stretched
    sizes = grid.m, grid.n, grid.k
    sides = [x for x in map(max, sizes) if x >= _LEAST_SIDE]
    for side in _divide(max(map(max, sizes))):
        # Whoever gives a job tiles of 500 has them along m and n, too.
        if stretched and side > min(sides, default=side):
            continue
        # A wave off the diagonal of an update needs two rows of tiles.
        wave = 2 if plan.spec.routine.triangle else 1
        cut = _cut(sizes, side, None if plan.streams or not stretched else wave)
        tried = plan.cluster.workers * prod(map(len, cut))
        if side < _LEAST_SIDE or tried > _TRIED:
            break
        kind = {"job": plan.job, "streams": plan.streams, "leaving": leaving}
        if not make_plan(plan.spec, cut, plan.cluster, **kind).fits(leaving=leaving):
            continue
        if stretched:
            return f"use tiles of {side}"
        rows, columns = (min(side, max(own)) for own in (sizes[0], sizes[2]))
        own = (rows, columns) if plan.spec.op_a == "N" else (columns, rows)
        made = f"where they are made: A = da.from_array(A, chunks={own})"
        return f"use chunks of {side} at most, {made}"
    return ""


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


def _cut(sizes: _Sizes, side: int, wave: int | None) -> _Sizes:
    """Cut every tile into tiles of this side, as files and arrays are cut.

    `wave`: the least rows of tiles to keep of the result, else those of before; None
    keeps all.
    """
    m, n, k = (tuple(x for size in own for x in cut_sizes(size, side)) for own in sizes)
    if wave is None:
        return m, n, k
    return m[: max(wave, len(sizes[0]))], n[: max(wave, len(sizes[1]))], k
