"""The workers for which a plan is made, and the shares of their memory."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal

from dask.utils import parse_bytes

from ..config import bytes_setting
from ..errors import PlanError, shown
from ..kernels.limits import CACHE_BYTES
from ..typing import as_integer

DEVICE_THREADS = 2  # on a worker's GPU: one launches, or reads, while another waits

# No cluster has more; figures beyond would overflow a float.
_MOST = 2**20
_MOST_BYTES = 2**63

# Defaults of dask's distributed.worker.memory.pause, spill and target: shares of a
# worker's limit at which its process starts no further task, at which the process
# writes tiles to disk, and at which the size of its tiles alone makes it do so.
PAUSE, SPILL, TARGET = 0.8, 0.7, 0.6
# Share of a worker's limit for the process and the tiles of a product of dask arrays:
# above it dask pauses the worker. Without workers the rest of a machine is for others.
PRODUCT_SHARE = PAUSE
# Share of a small machine that tiles get at least: the process is there already.
_LEAST_SHARE = 1 / 8
# Share of a device's free memory, or of its pool, so that a fifth stays free: CuPy's
# pool rounds allocations up, and leaves gaps. By reasoning; not measured.
DEVICE_SHARE = 0.8
# Share of a pool that outputs of tasks take at most: plans take the share above, of
# which the inside of tasks has at least a tenth.
OUTPUT_SHARE = 0.72
# All waves but the smallest possible one keep to this share; that one may use memory
# at which dask starts to spill.
WAVE_SHARE = 0.9
# Share of the bytes for tiles that encoded tiles kept for reuse may take, and that the
# input tiles of concurrent tasks may. Both give way to tiles that must be held.
CACHE_SHARE = 0.3125
PANEL_BYTES = 2**31  # input tiles that a task may hold if the setting does not say
# A worker of CPython 3.11 on x86-64 that has loaded NumPy, Numba, ONNX Runtime, zarr
# and h5py and computed a small product takes 258 MiB; in the middle of a short job, up
# to 265 in addition to the planned tiles. In one of 484 waves, in eight minutes, it
# grew to 315 (benchmarks/results/out-of-core-cpu-zen4.jsonl, planned with 280). Just
# installed, with more of the libraries' files in memory, it takes 298, and 337
# while it compiles kernels.
INTERPRETER_BYTES = 352 * 2**20

_MIB = 2**20


@dataclass(frozen=True)
class MemoryBudget:
    """Budget that the memory of one worker leaves for a product.

    `kind`: of dask arrays on workers, or without them on this machine; of a job on
    files; or of any of these on GPUs.
    """

    limit: int | None = None  # of the worker, or free on its device; None: unlimited
    kind: Literal["product", "machine", "job", "device"] = "product"
    taken_bytes: int = INTERPRETER_BYTES  # by a worker's process, besides its tiles
    pause: float = PAUSE  # share at which a worker of a job starts no further task
    stretched: bool = False  # for the smallest possible wave of a job

    @property
    def tile_bytes(self) -> int | None:
        """Bytes for inputs, results, encoded tiles and temporaries together."""
        if self.limit is None:
            return None
        if self.kind == "job":
            # All of dask's shares scale with the pause configured for its workers.
            limit = self.limit * self.pause / PAUSE
            tiles = min(SPILL * limit - self.taken_bytes, TARGET * limit)
        elif self.kind == "device":
            tiles = DEVICE_SHARE * self.limit
        else:
            tiles = PRODUCT_SHARE * self.limit - self.taken_bytes
            if self.kind == "machine":
                tiles = max(tiles, _LEAST_SHARE * self.limit)
        return max(1, int(tiles / WAVE_SHARE if self.stretched else tiles))

    @property
    def most_bytes(self) -> int:
        """Bytes of a process at which dask writes tiles to disk, or pauses a worker."""
        share = SPILL * self.pause / PAUSE if self.kind == "job" else PRODUCT_SHARE
        return int(share * (self.limit or 0))

    @property
    def cache_bytes(self) -> int:
        """Bytes of encoded tiles that may be kept for reuse."""
        return self._at_most("cache-bytes", CACHE_BYTES, 1)

    def panel_bytes(self, threads: int) -> int:
        """Return the bytes for a task's input tiles if `threads` tasks run at once."""
        return self._at_most("panel-bytes", PANEL_BYTES, threads)

    def _at_most(self, setting: str, default: int, parts: int) -> int:
        most, tiles = bytes_setting(setting, default), self.tile_bytes
        return most if tiles is None else min(most, int(tiles * CACHE_SHARE) // parts)

    def least_limit(self, tile_bytes: int) -> int:
        """Return the limit that leaves `tile_bytes` for tiles, rounded up to MiB."""
        tiles = tile_bytes * (WAVE_SHARE if self.stretched else 1)
        if self.kind == "job":
            limit = max((tiles + self.taken_bytes) / SPILL, tiles / TARGET)
            limit *= PAUSE / self.pause
        elif self.kind == "device":
            limit = tiles / DEVICE_SHARE
        else:
            limit = (tiles + self.taken_bytes) / PRODUCT_SHARE
            if self.kind == "machine":
                limit = min(limit, tiles / _LEAST_SHARE)
        return ceil(limit / _MIB) * _MIB


def read_limit(limit: Any, memory_bytes: int) -> int | None:
    """Read a memory limit as dask does: a float up to 1 is a share of the memory.

    Any other is bytes, or a text of either; None and "auto" are no limit.
    """
    if limit is None or limit == "auto":
        return None
    with suppress(ValueError):
        limit = float(limit) if isinstance(limit, str) else limit
    try:
        share = isinstance(limit, float) and limit <= 1
        return int(limit * memory_bytes if share else parse_bytes(limit))
    except (TypeError, ValueError, OverflowError, AttributeError):
        problem = f"memory_limit={shown(limit)} is not a size"
        remedy = 'Give bytes, a text such as "4 GiB", or a share of memory up to 1.0'
        raise PlanError(problem, remedy, "memory-limit") from None


@dataclass(frozen=True)
class Cluster:
    """The workers for which a plan is made."""

    workers: int = 1
    threads: int = 1  # tasks that run at once on each
    memory: MemoryBudget = field(default_factory=MemoryBudget)  # of each
    node: int = 0  # workers that share a host, by `node_size`; 0: all do

    def __post_init__(self) -> None:
        # A frozen dataclass can only be changed this way.
        fill = object.__setattr__
        fill(self, "workers", read_count("n_workers", self.workers))
        fill(self, "threads", read_count("threads_per_worker", self.threads))
        if self.memory.limit is not None:
            limit = read_count("memory_limit", self.memory.limit, _MOST_BYTES)
            fill(self, "memory", replace(self.memory, limit=limit))


def read_count(name: str, value: Any, most: int = _MOST) -> int:
    """Return a count as an int, or refuse it under the name that plans use for it."""
    count = as_integer(value)
    if count is None or not 1 <= count <= most:
        problem = f"{name}={value!r} is not an integer from 1 to {most}"
        raise PlanError(problem, "", "cluster")
    return count
