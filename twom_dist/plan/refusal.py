"""Refusals of plans that do not fit: how much is missing, and what would do."""

from dataclasses import replace

from dask.utils import format_bytes

from ..errors import MemoryLimitError
from .chunks import SMALLEST_TILE
from .record import Plan
from .show import name_count


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
    # Smaller tiles leave what a product of dask arrays holds as it is; all else shrinks
    # with their sides at least.
    held = 0 if plan.streams or plan.job else memory.inputs
    held += 0 if leaving or plan.job else memory.outputs
    side = max(plan.tile_shape)
    rest = (memory.total - held) * SMALLEST_TILE // side
    if side > SMALLEST_TILE and held + rest < budget.tile_bytes:
        ways.append(f"use {'tiles' if plan.job else 'chunks'} smaller than {side}")
    # Nothing inside of tasks goes to disk.
    if budget.kind == "product" and memory.temporaries < budget.tile_bytes // 2:
        ways.append("let dask spill (the setting twom-dist.refuse-memory: false)")
    if on_machine:
        ways.append("try it all the same (twom-dist.refuse-memory: false)")
    error = MemoryLimitError(problem, ", or ".join(ways), "memory")
    error.needed = memory.total
    raise error
