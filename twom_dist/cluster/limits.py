"""What the process of a worker takes of its memory limit, and what it leaves."""

from typing import Any

# A worker of CPython 3.11 on x86-64 that has loaded NumPy, Numba, ONNX Runtime, zarr
# and h5py and made a small product: 258 MiB; in the middle of a short job, beside the
# tiles that were planned: up to 265. In one of 484 waves, eight minutes, it grew to 315
# (benchmarks/results/out-of-core-cpu-zen4.jsonl, planned with 280).
INTERPRETER_BYTES = 320 * 2**20
# distributed.worker.memory.pause, spill and target as dask ships them: shares of the
# limit at which a process starts no further task, writes tiles to disk, and of tiles.
PAUSE, SPILL, TARGET = 0.8, 0.7, 0.6
_STEP = 2**20


def read_share(pause: Any) -> float:
    """Return the setting, which may say never: then dask kills a worker at 0.95."""
    return float(pause) if pause else PAUSE


def tile_bytes(limit: float, taken_bytes: int = INTERPRETER_BYTES) -> float:
    """Bytes of a limit that are left for tiles; none, or less, beside a large process.

    ``min(0.7 limit - taken, 0.6 limit)``.
    """
    return min(SPILL * limit - taken_bytes, TARGET * limit)


def round_up(limit: float) -> int:
    """Return a limit in whole MiB."""
    return -int(-limit // _STEP) * _STEP
