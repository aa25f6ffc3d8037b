"""GPUs that only keep a clock, for the dask path of this package without any GPU.

Graphs, plugin, scheduler, tasks, cache and launches are the package's own. Blocks are
NumPy arrays whose sides are 1/64 of those they stand for; settings in bytes shrink
alike. A launch moves the clock of its device by what it took on an H100, and a wait
sleeps until then. Results are garbage, but for what decides about moduli and shifts:
the CPU engine finds that, on the small blocks. Transfers take what the link would.

Counts are exact, and times as good as the figures below and the cores that are left.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
from distributed import Worker, get_worker

from benchmarks.clock import AREA, COPY, NORMS, POOL, SCALE, Clock, on_numpy
from twom_dist.kernels import registry
from twom_dist.kernels.cuda import engine as cuda
from twom_dist.plan import sweeps
from twom_dist.tiles import cache, tasks
from twom_dist.workers import devices as run_devices

_lock = threading.Lock()
_clocks: dict[Any, Clock] = {}
_caches: dict[Any, cache.EncodedCache] = {}
_how: dict[str, float] = {"dilation": 1.0, "bandwidth": 0.0}


def _worker(address: str = "") -> Any:
    """Name the worker that runs this, or that listens at an address."""
    try:
        return get_worker().name
    except ValueError:
        pass
    here = [x for x in Worker._instances if address in ("", x.address)]
    return here[0].name if len(here) == 1 else "client"


def clock(address: str = "") -> Clock:
    name = _worker(address)
    with _lock:
        return _clocks.setdefault(name, Clock(**_how))


def reset() -> None:
    with _lock:
        _clocks.clear()
        _caches.clear()


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

    @device.setter
    def device(self, device: Any) -> None:
        raise AttributeError(device)

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


async def _receive(get: Callable[..., Any], *given: Any, who: str, **more: Any) -> Any:
    """Fetch blocks from another worker, as slowly as the link."""
    found = await get(*given, who=who, **more)
    data = found.get("data", {}).values()
    nbytes = AREA * sum(int(getattr(x, "nbytes", 0)) for x in data)
    own = clock(who)
    seconds = own.link.take(nbytes, own.dilation)
    own.counts["received"] += nbytes
    if seconds:
        await asyncio.sleep(seconds)
    return found


@contextmanager
def clocked_devices(dilation: float = 1.0, bandwidth: float = 0.0) -> Iterator[None]:
    """Give this process clocked devices, for NumPy blocks.

    `dilation`: how much slower all devices and links are, so that Python's own time
    matters less; `bandwidth`: bytes per second that enter a worker, 0 for no limit.
    """
    from distributed import worker

    get_data = worker.get_data_from_worker

    def receive(*given: Any, **options: Any) -> Any:
        return _receive(get_data, *given, **options)

    reset()
    _how.update(dilation=dilation, bandwidth=bandwidth)
    with (
        on_numpy(_engine),
        mock.patch.object(tasks, "encoded_tiles", _Caches()),
        mock.patch.object(tasks, "on_worker", return_value=True),
        mock.patch.object(sweeps, "PANEL_VOLUME", sweeps.PANEL_VOLUME // SCALE**3),
        mock.patch.object(run_devices, "measure_device", _measure_device),
        mock.patch.object(worker, "get_data_from_worker", receive),
    ):
        yield
    reset()


def install(dilation: float, bandwidth: float) -> None:
    """Give this process clocked devices until it ends."""
    _installed.enter_context(clocked_devices(dilation, bandwidth))


_installed = ExitStack()


def report(name: Any = None) -> dict[str, Any]:
    own = clock() if name is None else _clocks.get(name, Clock())
    kept = _caches.get(_worker() if name is None else name)
    return {
        "counts": dict(own.counts),
        "seconds": dict(own.seconds),
        "log": list(own.log),
        "transfers": list(own.link.log),
        "peak_bytes": own.peak_bytes,
        "encoded": getattr(kept, "encoded", 0),
        "reused": getattr(kept, "reused", 0),
    }
