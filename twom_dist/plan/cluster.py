"""The workers of a plan, and what fits them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from numbers import Integral

from ..config import bytes_setting
from ..errors import MemoryLimitError, PlanError
from ..memory import CACHE_SHARE, PANEL_SHARE, USABLE_SHARE, WorkerMemory
from ..tiles.grid import Chunks, group_panels
from .record import format_bytes


@dataclass(frozen=True)
class Cluster:
    """The workers that a plan is made for.

    Attributes
    ----------
    workers, threads : int
        Processes, and tasks that run side by side on each.
    memory : int or None
        Bytes of one worker; None is unlimited.
    """

    workers: int = 1
    threads: int = 1
    memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "memory"):
            value = getattr(self, name)
            optional = name == "memory" and value is None
            if not optional and (not isinstance(value, Integral) or value < 1):
                raise PlanError(
                    f"{name}={value!r} given; it is a positive integer"
                    + (" of bytes" if name == "memory" else "")
                )


def fit_panels(
    grid_k: Chunks, mb: int, nb: int, itemsize: int, cluster: Cluster
) -> tuple[tuple[int, int], ...]:
    """Group k tiles into panels that leave room for everything else."""
    budget = bytes_setting("panel-bytes")
    if cluster.memory is not None:
        budget = min(budget, int(cluster.memory * PANEL_SHARE) // cluster.threads)
    return group_panels(grid_k, mb, nb, itemsize, budget)


def fit_cache(cluster: Cluster) -> int:
    """Bytes of encoded tiles that a worker of this size may keep."""
    budget = bytes_setting("cache-bytes")
    return (
        budget
        if cluster.memory is None
        else min(budget, int(cluster.memory * CACHE_SHARE))
    )


def fit_memory(
    predict: Callable[[int], WorkerMemory], cache_bytes: int, cluster: Cluster
) -> tuple[WorkerMemory, int]:
    """Predict what the fullest worker holds, and what it keeps of encoded tiles.

    These are kept in what is free beside the rest: they can be made again.

    Parameters
    ----------
    predict : callable
        From the bytes that may be kept.
    cache_bytes : int
        The most that may.
    cluster : Cluster

    Raises
    ------
    MemoryLimitError
        Where the rest alone is too much.
    """
    memory = predict(cache_bytes)
    if cluster.memory is None or memory.total <= cluster.memory * USABLE_SHARE:
        return memory, cache_bytes
    least, usable = predict(0), int(cluster.memory * USABLE_SHARE)
    if least.total <= usable:
        return predict(usable - least.total), usable - least.total
    # Rounded up: what is advised must do.
    needed = ceil(least.total / USABLE_SHARE / 2**20)
    raise MemoryLimitError(
        f"{cluster.workers} workers of {format_bytes(cluster.memory)} given and "
        f"the fullest needs {format_bytes(least.total)} "
        f"({format_bytes(least.inputs)} of inputs, "
        f"{format_bytes(least.outputs)} of results, "
        f"{format_bytes(least.temporaries)} in tasks) beside dask's own; give each at "
        f"least {needed} MiB ({USABLE_SHARE:.0%} of it is planned with), use more "
        "workers, or smaller chunks"
    )
