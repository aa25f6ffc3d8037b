"""What the memory of the workers leaves for tiles."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..cluster.limits import (
    INTERPRETER_BYTES,
    PAUSE,
    SPILL,
    TARGET,
    read_share,
    round_up,
    tile_bytes,
)
from ..errors import MemoryLimitError, PlanError
from ..kernels.cpu.buffers import kept_bytes
from ..plan import SMALLEST_TILE, Cluster
from ..plan.record import format_bytes
from .layout import LAST_SHARE, WAVE_SHARE, Layout
from .watchdog import ask

_STEP = 2**20
# From a cluster, and from a tile where one may be asked for.
Make = Callable[..., Layout]


@dataclass(frozen=True)
class Room:
    """The workers, and what is not there for tiles.

    Attributes
    ----------
    cluster : Cluster
        As dask describes it.
    taken_bytes : int
        Of the fullest process, before the job.
    pause : float
        Share of its memory limit at which a worker starts no further task.
    """

    cluster: Cluster
    taken_bytes: int = INTERPRETER_BYTES
    pause: float = PAUSE

    @property
    def planned(self) -> Cluster:
        """The same workers with the memory to lay out a job for.

        Waves that fill `WAVE_SHARE` of it end where dask would begin to write to disk;
        what fills `LAST_SHARE` of it ends below the pause.
        """
        if self.cluster.memory is None:
            return self.cluster
        limit = self.cluster.memory * self.pause / PAUSE
        tiles = tile_bytes(limit, self.taken_bytes)
        memory = tiles / WAVE_SHARE / LAST_SHARE
        return replace(self.cluster, memory=max(1, int(memory)))

    def lay_out(self, make: Make, smaller: Iterable[int] = ()) -> Layout:
        """Make a layout for what is left, or say what the workers need.

        `smaller` are tiles to advise, where `make` takes one and it would help.
        """
        try:
            return make(self.planned)
        except MemoryLimitError:
            if self.cluster.memory is None:
                raise
            raise MemoryLimitError(self._describe_need(make, smaller)) from None

    def _describe_need(self, make: Make, smaller: Iterable[int]) -> str:
        tiles = find_least(make, self.cluster) * LAST_SHARE
        wave_bytes = WAVE_SHARE * tiles
        rules = (
            (SPILL, wave_bytes + self.taken_bytes, "the process and tiles"),
            (TARGET, wave_bytes, "tiles"),
        )
        # As in `planned`: the one that asks for more counts.
        share, held_bytes, what = max(rules, key=lambda rule: rule[1] / rule[0])
        share *= self.pause / PAUSE
        assert self.cluster.memory is not None
        return (
            f"{name_workers(self.cluster)} of {format_bytes(self.cluster.memory)} "
            f"given and the fullest needs {format_bytes(int(tiles))} for tiles beside "
            f"the {format_bytes(self.taken_bytes)} of its process; give each at least "
            f"{format_bytes(round_up(held_bytes / share))} ({share:.0%} of it is for "
            f"{what}; dask pauses a worker at {self.pause:.0%})"
            + describe_ways(make, smaller, self.planned, "machine")
        )


def name_workers(cluster: Cluster) -> str:
    """Count the workers."""
    return f"{cluster.workers} worker{'s' if cluster.workers > 1 else ''}"


def describe_ways(
    make: Make, smaller: Iterable[int], planned: Cluster, home: str
) -> str:
    """Say what helps beside more memory: of several workers fewer, and a tile."""
    ways = f", as fewer workers of a {home} have" if planned.workers > 1 else ""
    tile = next((tile for tile in smaller if _fits(make, planned, tile=tile)), None)
    return ways if tile is None else f"{ways}, or use tile={tile}"


def list_smaller(tile: int | None) -> list[int]:
    """List tiles below the one that was given, or chosen; each half the one before.

    Examples
    --------
    >>> list_smaller(20)
    [10, 5, 2, 1]
    """
    # Chosen ones are longer along k than they are wide.
    largest = SMALLEST_TILE if tile is None else tile // 2
    return [largest >> n for n in range(largest.bit_length())]


def _fits(make: Make, cluster: Cluster, **options: int) -> bool:
    try:
        make(cluster, **options)
    except PlanError:
        return False
    return True


def find_least(make: Make, cluster: Cluster) -> int:
    """Find the least memory that a layout can be made for, to some 3 %."""

    def fits(memory: int) -> bool:
        return _fits(make, replace(cluster, memory=memory))

    high = _STEP
    while not fits(high):
        high *= 2
    low = high // 2
    while high - low > max(_STEP, high // 32):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def find_room(cluster: Cluster, client: Any = None) -> Room:
    """Ask the workers what is taken; without a client, take what is usual."""
    import dask

    if client is None:
        return Room(cluster, pause=read_share(dask.config.get(_SETTING, PAUSE)))
    # One that has just died is no matter.
    found = ask(client.run, _measure, on_error="ignore").values()
    taken = max((memory for memory, _ in found), default=0)
    pause = min((read_share(pause) for _, pause in found), default=PAUSE)
    return Room(cluster, max(INTERPRETER_BYTES, taken), pause)


_SETTING = "distributed.worker.memory.pause"


def _measure(dask_worker: Any) -> tuple[int, Any]:
    # Earlier products leave buffers that the next one takes first.
    memory = dask_worker.monitor.get_process_memory() - kept_bytes()
    return int(memory), dask_worker.memory_manager.memory_pause_fraction
