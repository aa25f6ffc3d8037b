"""What the memory of the workers leaves for tiles."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..config import bytes_setting
from ..errors import MemoryLimitError
from ..plan import Cluster
from ..plan.record import format_bytes
from .layout import LAST_SHARE, WAVE_SHARE, Layout
from .waiting import ask

# A worker of CPython 3.11 on x86-64 that has loaded NumPy, Numba, ONNX Runtime, zarr
# and h5py and made a small product: 258 MiB; in the middle of a short job, beside the
# tiles that were planned: up to 265. In one of 484 waves, eight minutes, it grew to 315
# (benchmarks/results/out-of-core-cpu-zen4.jsonl, planned with 280).
INTERPRETER_BYTES = 320 * 2**20
# distributed.worker.memory.pause, spill and target as dask ships them: shares of the
# limit at which a process starts no further task, writes tiles to disk, and of tiles.
_PAUSE, _SPILL, _TARGET = 0.8, 0.7, 0.6
_STEP = 2**20


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
    pause: float = _PAUSE

    @property
    def planned(self) -> Cluster:
        """The same workers with the memory to lay out a job for.

        Waves that fill `WAVE_SHARE` of it end where dask would begin to write to disk;
        what fills `LAST_SHARE` of it ends below the pause.
        """
        if self.cluster.memory is None:
            return self.cluster
        limit = self.cluster.memory * self.pause / _PAUSE
        tiles = min(_SPILL * limit - self.taken_bytes, _TARGET * limit)
        memory = tiles / WAVE_SHARE / LAST_SHARE
        return replace(self.cluster, memory=max(1, int(memory)))

    def lay_out(self, make: Callable[[Cluster], Layout]) -> Layout:
        """Make a layout for what is left, or say what the workers need."""
        try:
            return make(self.planned)
        except MemoryLimitError:
            if self.cluster.memory is None:
                raise
            raise MemoryLimitError(self._describe_need(make)) from None

    def _describe_need(self, make: Callable[[Cluster], Layout]) -> str:
        tiles = find_least(make, self.cluster) * LAST_SHARE
        wave_bytes = WAVE_SHARE * tiles
        rules = (
            (_SPILL, wave_bytes + self.taken_bytes, "the process and tiles"),
            (_TARGET, wave_bytes, "tiles"),
        )
        # As in `planned`: the one that asks for more counts.
        share, held_bytes, what = max(rules, key=lambda rule: rule[1] / rule[0])
        share *= self.pause / _PAUSE
        assert self.cluster.memory is not None
        least = -int(-held_bytes / share // _STEP) * _STEP
        return (
            f"{self.cluster.workers} workers of {format_bytes(self.cluster.memory)} "
            f"given and the fullest needs {format_bytes(int(tiles))} for tiles beside "
            f"the {format_bytes(self.taken_bytes)} of its process; give each at least "
            f"{format_bytes(least)} ({share:.0%} of it is for {what}; dask pauses a "
            f"worker at {self.pause:.0%}), as fewer workers of a machine have, or use "
            "smaller chunks"
        )


def find_least(make: Callable[[Cluster], Layout], cluster: Cluster) -> int:
    """Find the least memory that a layout can be made for, to some 3 %."""

    def fits(memory: int) -> bool:
        try:
            make(replace(cluster, memory=memory))
        except MemoryLimitError:
            return False
        return True

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
        return Room(cluster, pause=_share(dask.config.get(_SETTING, _PAUSE)))
    # One that has just died is no matter.
    found = ask(client.run, _measure, on_error="ignore").values()
    # Earlier products leave buffers that the next one takes first.
    reused = bytes_setting("reuse-bytes")
    taken = max((memory - reused for memory, _ in found), default=0)
    pause = min((_share(pause) for _, pause in found), default=_PAUSE)
    return Room(cluster, max(INTERPRETER_BYTES, taken), pause)


_SETTING = "distributed.worker.memory.pause"


def _share(pause: Any) -> float:
    """Return the setting, which may say never: then dask kills a worker at 0.95."""
    return float(pause) if pause else _PAUSE


def _measure(dask_worker: Any) -> tuple[int, Any]:
    memory = dask_worker.monitor.get_process_memory()
    return int(memory), dask_worker.memory_manager.memory_pause_fraction
