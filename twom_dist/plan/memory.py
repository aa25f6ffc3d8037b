"""What the memory of a worker is for: every share of it, and why."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from ..config import bytes_setting

# distributed.worker.memory.pause, spill and target as dask ships them: shares of a
# worker's limit at which its process starts no further task and writes tiles to disk,
# and at which its tiles alone are written to disk.
PAUSE, SPILL, TARGET = 0.8, 0.7, 0.6
# Of a worker's limit, for a product of dask arrays: nobody knows what else they keep
# there, and above dask pauses.
PRODUCT_SHARE = PAUSE
# Of the free memory of a device, for a job: CuPy's pool rounds what it hands out.
DEVICE_SHARE = 0.72
# Of the least wave that a job can be cut into, for all other waves: it may take what
# dask would begin to write to disk.
WAVE_SHARE = 0.9
# Of the bytes for tiles: encoded tiles that are kept for reuse, and the input tiles of
# the tasks that run side by side. Both give way to what must be held.
CACHE_SHARE = 0.3125
# A worker of CPython 3.11 on x86-64 that has loaded NumPy, Numba, ONNX Runtime, zarr
# and h5py and made a small product: 258 MiB; in the middle of a short job, beside the
# tiles that were planned: up to 265. In one of 484 waves, eight minutes, it grew to 315
# (benchmarks/results/out-of-core-cpu-zen4.jsonl, planned with 280). Just installed,
# with more of the libraries' files in memory: 298, and 337 while it compiles kernels.
INTERPRETER_BYTES = 352 * 2**20

_MIB = 2**20


@dataclass(frozen=True)
class MemoryBudget:
    """What the memory of one worker leaves for a product.

    Attributes
    ----------
    limit : int or None
        Bytes of the worker, or free bytes of its device; None is unlimited.
    kind : {"product", "job", "device"}
        What is planned: a product of dask arrays, a job on files, or one on GPUs.
    taken_bytes : int
        What the process of a job's worker holds beside its tiles.
    pause : float
        Share of the limit at which a worker of a job starts no further task.
    stretched : bool
        Whether this is the least wave of a job.
    """

    limit: int | None = None
    kind: Literal["product", "job", "device"] = "product"
    taken_bytes: int = INTERPRETER_BYTES
    pause: float = PAUSE
    stretched: bool = False

    @property
    def tile_bytes(self) -> int | None:
        """Bytes for inputs, results, encoded tiles and temporaries together."""
        if self.limit is None:
            return None
        if self.kind == "job":
            # dask's shares move with the pause that its workers are configured with.
            limit = self.limit * self.pause / PAUSE
            tiles = min(SPILL * limit - self.taken_bytes, TARGET * limit)
        else:
            tiles = self.limit * self._share
        return max(1, int(tiles / WAVE_SHARE if self.stretched else tiles))

    @property
    def _share(self) -> float:
        return PRODUCT_SHARE if self.kind == "product" else DEVICE_SHARE

    @property
    def cache_bytes(self) -> int:
        """Bytes of encoded tiles that may be kept for reuse."""
        return self._at_most("cache-bytes", 1)

    def panel_bytes(self, threads: int) -> int:
        """Bytes of input tiles of one task, of so many that run side by side."""
        return self._at_most("panel-bytes", threads)

    def _at_most(self, setting: str, parts: int) -> int:
        most, tiles = bytes_setting(setting), self.tile_bytes
        return most if tiles is None else min(most, int(tiles * CACHE_SHARE) // parts)

    def stretch(self) -> "MemoryBudget":
        """Return the budget of the least wave there is; products have no waves."""
        return replace(self, stretched=self.kind != "product")

    def least_limit(self, tile_bytes: int) -> int:
        """Return the limit that leaves so much for tiles, in whole MiB, rounded up."""
        tiles = tile_bytes * (WAVE_SHARE if self.stretched else 1)
        if self.kind == "job":
            limit = max((tiles + self.taken_bytes) / SPILL, tiles / TARGET)
            limit *= PAUSE / self.pause
        else:
            limit = tiles / self._share
        return ceil(limit / _MIB) * _MIB
