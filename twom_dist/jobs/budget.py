"""Fitting a job into the memory of its workers, or saying what they would need."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from dask.utils import format_bytes

from ..errors import MemoryLimitError, PlanError
from ..kernels.cpu.buffers import kept_bytes
from ..memory import INTERPRETER_BYTES, PAUSE, MemoryBudget
from ..plan import SMALLEST_TILE, Cluster, Layout
from .watchdog import ask

_MIB = 2**20
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
    """Make a layout for the cluster, or say what its workers would need.

    `smaller` are tiles to advise, where `make` takes one and it would help.
    """
    try:
        return make(cluster)
    except MemoryLimitError:
        if cluster.memory.limit is None:
            raise
    problem, remedy = _advise(make, cluster, smaller)
    raise MemoryLimitError(problem, remedy, "memory")


def _advise(make: Make, cluster: Cluster, smaller: Iterable[int]) -> tuple[str, str]:
    budget, least = cluster.memory, find_least(make, cluster)
    assert budget.limit is not None
    needed = replace(budget, limit=least).stretch().tile_bytes
    what = "" if budget.kind == "job" else " of device memory"
    room = "no room" if budget.tile_bytes == 1 else format_bytes(budget.tile_bytes)
    taken = f" (its process takes {format_bytes(budget.taken_bytes)})"
    problem = (
        f"not enough memory: a worker of {format_bytes(budget.limit)}{what} has {room} "
        "for tiles"
        + (taken if budget.kind == "job" else "")
        + f", and the smallest wave needs {format_bytes(needed)}"
    )
    ways = [f"Give each at least {least // _MIB} MiB"]
    if cluster.workers > 1:
        ways.append(f"use fewer workers on each {_HOMES[budget.kind]}")
    tile = next((tile for tile in smaller if _fits(make, cluster, tile=tile)), None)
    if tile is not None:
        ways.append(f"use tiles of {tile}")
    return problem, ", or ".join(ways)


_HOMES = {"job": "machine", "device": "GPU"}


def list_smaller(tile: int | None) -> Iterator[int]:
    """List tiles below the one that was given, or chosen; each half the one before.

    Examples
    --------
    >>> list(list_smaller(20))
    [10, 5, 2, 1]
    """
    # Chosen ones are longer along k than they are wide.
    largest = SMALLEST_TILE if tile is None else tile // 2
    yield from (largest >> n for n in range(largest.bit_length()))


def _fits(make: Make, cluster: Cluster, **options: int) -> bool:
    try:
        make(cluster, **options)
    except PlanError:
        return False
    return True


def find_least(make: Make, cluster: Cluster) -> int:
    """Find the least memory that a layout can be made for: MiB, to some 3 %."""

    def fits(limit: int) -> bool:
        budget = replace(cluster.memory, limit=limit * _MIB)
        return _fits(make, replace(cluster, memory=budget))

    high = 1
    while not fits(high):
        high *= 2
    low = high // 2
    while high - low > max(1, high // 32):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high * _MIB
