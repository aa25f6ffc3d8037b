"""Fitting a job into the memory of its workers, or saying what they would need."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..errors import MemoryLimitError, PlanError
from ..kernels.cpu.buffers import kept_bytes
from ..memory import INTERPRETER_BYTES, PAUSE, MemoryBudget
from ..plan import SMALLEST_TILE, Cluster, Layout
from .watchdog import ask

# From a cluster, and from a tile where one may be asked for.
Make = Callable[..., Layout]


def local_cluster_of(threads: int) -> Cluster:
    """Describe this process as one worker with all the memory it may use."""
    # Knows the limits of containers, which psutil does not.
    from distributed.system import MEMORY_LIMIT

    return Cluster(1, threads, MemoryBudget(int(MEMORY_LIMIT)))


def budget_for_job(cluster: Cluster, client: Any = None) -> Cluster:
    """Count what the processes of the workers take beside tiles.

    Without a client, what is usual.
    """
    import dask

    limit = cluster.memory.limit
    if client is None:
        setting = dask.config.get("distributed.worker.memory.pause", PAUSE)
        budget = MemoryBudget(limit, "job", pause=_share(setting))
        return replace(cluster, memory=budget)
    # A worker that has just died does not matter.
    found = ask(client.run, _measure, on_error="ignore").values()
    taken = max((memory for memory, _ in found), default=0)
    pause = min((_share(pause) for _, pause in found), default=PAUSE)
    budget = MemoryBudget(limit, "job", max(INTERPRETER_BYTES, taken), pause)
    return replace(cluster, memory=budget)


def _share(pause: Any) -> float:
    """Return the setting, which may say never: then dask kills a worker at 0.95."""
    return float(pause) if pause else PAUSE


def _measure(dask_worker: Any) -> tuple[int, Any]:
    # Earlier products leave buffers that the next one takes first.
    memory = dask_worker.monitor.get_process_memory() - kept_bytes()
    return int(memory), dask_worker.memory_manager.memory_pause_fraction


def fit(make: Make, cluster: Cluster, smaller: Iterable[int] = ()) -> Layout:
    """Make a layout for the cluster, or say what would help.

    `smaller` are tiles to advise, where `make` takes one.
    """
    try:
        return make(cluster)
    except MemoryLimitError as error:
        ways = [error.remedy]
        if cluster.workers > 1:
            home = "GPU" if cluster.memory.kind == "device" else "machine"
            ways.append(f"use fewer workers on each {home}")
        tile = next((tile for tile in smaller if _fits(make, cluster, tile)), None)
        if tile is not None:
            ways.append(f"use tiles of {tile}")
        refused = MemoryLimitError(error.problem, ", or ".join(ways), error.code)
    raise refused


def list_smaller(tile: int | None) -> Iterator[int]:
    """List tiles below the one that was given, or chosen; each half the one before."""
    # Chosen ones are longer along k than they are wide.
    largest = SMALLEST_TILE if tile is None else tile // 2
    yield from (largest >> n for n in range(largest.bit_length()))


def _fits(make: Make, cluster: Cluster, tile: int) -> bool:
    try:
        make(cluster, tile=tile)
    except PlanError:
        return False
    return True
