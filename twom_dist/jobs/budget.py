"""Fitting a job into the memory of its workers, or saying what they would need."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import dask

from ..errors import MemoryLimitError, PlanError
from ..kernels.cpu.buffers import kept_bytes
from ..memory import INTERPRETER_BYTES, PAUSE, MemoryBudget
from ..plan import SMALLEST_TILE, Cluster, Layout
from .watchdog import ask

# From a cluster, and from a tile where one may be asked for.
Make = Callable[..., Layout]


def budget_for_job(cluster: Cluster, client: Any = None) -> Cluster:
    """Count what the workers' processes take beside tiles; usually, without them."""
    if client is None:
        pause = dask.config.get("distributed.worker.memory.pause", PAUSE)
        found = [(INTERPRETER_BYTES, pause)]
    else:
        # A worker that has just died does not matter.
        found = [*ask(client.run, _measure, on_error="ignore").values()]
    taken = max((memory for memory, _ in found), default=0)
    # Without a pause dask kills a worker at 0.95.
    pause = min((float(pause or PAUSE) for _, pause in found), default=PAUSE)
    limit, taken = cluster.memory.limit, max(INTERPRETER_BYTES, taken)
    return replace(cluster, memory=MemoryBudget(limit, "job", taken, pause))


def _measure(dask_worker: Any) -> tuple[int, Any]:
    # Earlier products leave buffers that the next one takes first.
    memory = dask_worker.monitor.get_process_memory() - kept_bytes()
    return int(memory), dask_worker.memory_manager.memory_pause_fraction


def fit(make: Make, cluster: Cluster, smaller: Iterable[int] = ()) -> Layout:
    """Make a layout, or say what would help; `smaller`: tiles to advise."""
    try:
        return make(cluster)
    except MemoryLimitError as error:
        refused = error
    ways = [refused.remedy]
    if cluster.workers > 1:
        home = "GPU" if cluster.memory.kind == "device" else "machine"
        ways.append(f"use fewer workers on each {home}")
    for tile in smaller:
        with suppress(PlanError):
            make(cluster, tile=tile)
            ways.append(f"use tiles of {tile}")
            break
    raise MemoryLimitError(refused.problem, ", or ".join(ways), refused.code)


def list_smaller(tile: int | None) -> list[int]:
    """List tiles below the one that was given, or chosen; each half the one before."""
    # Chosen ones are longer along k than they are wide.
    largest = SMALLEST_TILE if tile is None else tile // 2
    return [largest >> n for n in range(largest.bit_length())]
