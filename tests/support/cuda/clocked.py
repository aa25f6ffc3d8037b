"""GPUs that only keep a clock, for the dask path of this package without any GPU.

Graphs, plugin, scheduler, tasks, cache and launches are the package's own. Blocks are
NumPy arrays whose sides are 1/64 of those they stand for; settings in bytes shrink
alike. A launch moves the clock of its device by what it took on an H100, and a wait
sleeps until then. Results are garbage, but for what decides about moduli and shifts:
the CPU engine finds that, on the small blocks. Transfers take no time, and all
workers share this process.

Counts are exact. `bench_simulation` predicts times.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import dask
import numpy as np
from distributed import get_worker

from tests.support.cuda.clock import AREA, COPY, NORMS, POOL, SCALE, Clock, on_numpy
from twom_dist.kernels import registry
from twom_dist.kernels.cuda import engine as cuda
from twom_dist.plan import sweeps
from twom_dist.tiles import cache, tasks
from twom_dist.tiles.dask.placement import plugin
from twom_dist.workers import devices as run_devices

MEMORY_MANAGER = "distributed.scheduler.active-memory-manager"
_lock = threading.Lock()
_clocks: dict[Any, Clock] = {}
_caches: dict[Any, cache.EncodedCache] = {}
_how: dict[str, float] = {"dilation": 1.0}


def _worker() -> Any:
    """Name the worker that runs this."""
    try:
        return get_worker().name
    except ValueError:
        return "client"


def clock() -> Clock:
    name = _worker()
    with _lock:
        return _clocks.setdefault(name, Clock(**_how))


def reset() -> None:
    with _lock:
        for kept in (_clocks, _caches):
            kept.clear()


class _Caches:
    """A cache for each worker, though they may share a process."""

    def get(self, *given: Any, **options: Any) -> Any:
        name = _worker()
        with _lock:
            own = _caches.setdefault(name, cache.EncodedCache())
        return own.get(*given, **options)


def _clocked(stage: str, rate: float) -> Any:
    """Have the CPU engine find what decides, and the clock say how long it took."""

    def call(self: Any, x: Any, *given: Any, **options: Any) -> Any:
        self.device.take(stage, AREA * x.nbytes / rate)
        return getattr(registry.get_engine("cpu"), stage)(x, *given, **options)

    return call


class ClockedEngine(cuda.CudaEngine):
    """The CUDA engine on `Clock`s, for NumPy blocks."""

    family = "numpy"
    measure = _clocked("measure", NORMS)
    choose_exponents = _clocked("choose_exponents", COPY)
    error_sums = _clocked("error_sums", NORMS)
    octaves = _clocked("octaves", COPY)
    multiply_octaves = _clocked("multiply_octaves", COPY)

    def __init__(self) -> None:
        """Have no device of its own."""

    @property
    def device(self) -> Any:
        return clock()

    def fetch(self, arrays: Sequence[Any], meanwhile: Any = None) -> list[Any]:
        clock().counts["fetch"] += 1
        clock().synchronize()
        return [np.array(x) for x in arrays]


# Made on the main thread: its tables are cached by function.
_engine = ClockedEngine()


def _measure_device(dask_worker: Any = None) -> run_devices.WorkerDevice:
    """Tell of a pool on a device of this worker's own."""
    name = str(getattr(dask_worker, "name", "client"))
    own = {"own_bytes": POOL // AREA, "free_bytes": 0}
    return run_devices.WorkerDevice(name, **own)


@contextmanager
def clocked_devices(dilation: float = 1.0) -> Iterator[None]:
    """Give this process clocked devices, for NumPy blocks.

    `dilation`: how much slower all devices are, so that Python's own time matters less.
    """

    def slowed(module: Any, *names: str) -> Any:
        slow = {name: getattr(module, name) * dilation for name in names}
        return mock.patch.multiple(module, **slow)

    reset()
    _how.update(dilation=dilation)
    with (
        on_numpy(_engine),
        mock.patch.object(tasks, "encoded_tiles", _Caches()),
        mock.patch.object(tasks, "on_worker", return_value=True),
        mock.patch.object(sweeps, "PANEL_VOLUME", sweeps.PANEL_VOLUME // SCALE**3),
        mock.patch.object(run_devices, "measure_device", _measure_device),
        slowed(plugin, "REBALANCE_SECONDS", "PAYS_SECONDS"),
        # One block a message, as large ones travel.
        dask.config.set({"distributed.worker.transfer.message-bytes-limit": "1B"}),
        # dask's memory manager drops what came ahead: as often as devices have it.
        dask.config.set({f"{MEMORY_MANAGER}.interval": f"{2 * dilation} s"}),
    ):
        yield
    reset()


def report(name: Any) -> dict[str, Any]:
    own, kept = _clocks.get(name, Clock()), _caches.get(name)
    return {
        "counts": dict(own.counts),
        "peak_bytes": own.peak_bytes,
        "encoded": getattr(kept, "encoded", 0),
        "reused": getattr(kept, "reused", 0),
    }
