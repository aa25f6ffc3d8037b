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
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any
from unittest import mock

import numpy as np
from distributed import get_worker

from twom_dist.kernels import registry
from twom_dist.kernels.cuda import engine as cuda
from twom_dist.kernels.cuda.launch import Parts, part_offsets
from twom_dist.kernels.cuda.tuning import tuning_for
from twom_dist.plan import turns
from twom_dist.run import devices as run_devices
from twom_dist.tiles import cache, spec, tasks

# Side of a block that stands for one 64 times as large, and what areas grow by.
SCALE = 64
AREA = SCALE**2
GIB = 2**30
# An H100, complex128, n = 8192 (gpu.jsonl): bytes per second of the passes, operations
# per second of 32 int8 products; 2.4 TB/s is what copies reach of its memory.
NORMS, ENCODE, DECODE = 4 * GIB / 1.46e-3, 6 * GIB / 2.48e-3, 3 * GIB / 1.61e-3
OPERATIONS, COPY = 64 * 8192**3 / 24.6e-3, 2.4e12
FILL = 0.135e-3 / 8192**2
# Memory of an H100, and what a pool of 0.9 of it leaves.
POOL = int(0.9 * 79.1 * GIB)
CAPABILITY = 90


class Link:
    """The way into a worker, where blocks queue.

    Attributes
    ----------
    bandwidth : float
        Bytes per second; 0 takes no time.
    """

    def __init__(self, bandwidth: float) -> None:
        self.bandwidth, self.busy = bandwidth, 0.0

    def take(self, nbytes: int, dilation: float) -> float:
        """Return the seconds until so many bytes of a device have arrived."""
        now = time.perf_counter()
        if self.bandwidth:
            start = max(now, self.busy)
            self.busy = start + nbytes / self.bandwidth * dilation
        return max(0.0, self.busy - now)


class Clock:
    """The device of one worker: when it is done, and with what."""

    def __init__(self, dilation: float = 1.0, bandwidth: float = 0.0) -> None:
        self.dilation, self.link = dilation, Link(bandwidth)
        self.busy, self.own = 0.0, threading.local()
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.log: list[tuple[float, float, str]] = []
        self.made_bytes = self.peak_bytes = 0
        self._mapped: list[Any] = []
        self._lock = threading.RLock()

    def take(self, what: str, seconds: float) -> None:
        """Launch something."""
        with self._lock:
            start = max(time.perf_counter(), self.busy)
            self.busy = self.own.busy = start + seconds * self.dilation
            self.counts[what] += 1
            self.seconds[what] += seconds
            self.log.append((start, self.busy, what))

    def synchronize(self) -> None:
        """Wait for what this thread has launched."""
        self.counts["wait"] += 1
        time.sleep(max(0.0, getattr(self.own, "busy", 0.0) - time.perf_counter()))

    # --- memory ---------------------------------------------------------------------

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Allocate."""
        size = prod(shape) * np.dtype(dtype).itemsize
        whole = np.empty(size + 512, np.uint8)
        self.counts["allocation"] += 1
        stands_for = size * (AREA if len(shape) > 1 else SCALE)
        self._hold(stands_for)
        weakref.finalize(whole, self._hold, -stands_for)
        start = -whole.ctypes.data % 512
        return whole[start : start + size].view(dtype).reshape(shape)

    def _hold(self, size: int) -> None:
        with self._lock:
            self.made_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.made_bytes)

    def filled(self, shape: tuple[int, ...], dtype: Any, byte: int = 0) -> Any:
        """Allocate, every byte alike."""
        out = self.empty(shape, dtype)
        out.reshape(-1).view(np.uint8)[...] = byte
        return out

    def empty_together(self, parts: Parts) -> list[Any]:
        """Allocate several arrays at once."""
        offsets, size = part_offsets(parts)
        whole = self.empty((size,), np.uint8)
        sizes = [prod(shape) * np.dtype(dtype).itemsize for shape, dtype in parts]
        return [
            whole[start : start + size].view(dtype).reshape(shape)
            for (shape, dtype), start, size in zip(parts, offsets, sizes, strict=True)
        ]

    def send(self, x: Any) -> Any:
        """Copy a small array."""
        return x.copy()

    def constant(self, table: Any) -> Any:
        """Return the table itself."""
        return table

    def map_planes(self, planes: Any) -> Any:
        """Remember the planes of the next product."""
        self._mapped.append(planes.shape)
        return planes

    def total_bytes(self) -> int:
        """Memory of the device."""
        return POOL // AREA

    def free_bytes(self) -> int | None:
        """Tell that nobody can tell, as with RMM's pool."""
        return None

    def multiprocessors(self) -> int:
        """Count the multiprocessors."""
        return 132

    def capability(self) -> int:
        """Compute capability."""
        return CAPABILITY

    def element(self) -> Any:
        """Multiply int8."""
        return tuning_for(CAPABILITY).element

    # --- launches -------------------------------------------------------------------

    def launch(
        self, module: Any, name: str, grid: Any, block: Any, args: Sequence[Any]
    ) -> None:
        """Move the clock."""
        arrays = [x for x in args if isinstance(x, np.ndarray) and x.ndim > 1]
        nbytes = AREA * sum(x.nbytes for x in arrays)
        if name == "products":
            (_, m, k), (_, n, _) = self._mapped[-2:]
            self._mapped.clear()
            jobs = next(x for x in arrays if x.dtype == np.int32 and x.shape[1] == 4)
            triangle = int(args[-2])
            share = 0.5 + 128 / (m * SCALE) if triangle else 1.0
            operations = share * len(jobs) * 2 * m * n * k * SCALE**3
            self.take(name, operations / OPERATIONS)
        elif name in ("mark_nonfinite", "fill_nonfinite"):
            marks = next(x for x in arrays if x.dtype == np.uint8)
            self.take(name, FILL * AREA * marks.size)
        else:
            rates = {"encode": ENCODE, "decode": DECODE}
            self.take(name, nbytes / rates.get(name, COPY))


# --- one device a worker --------------------------------------------------------------

_lock = threading.Lock()
_clocks: dict[Any, Clock] = {}
_caches: dict[Any, cache.EncodedCache] = {}
_how: dict[str, float] = {"dilation": 1.0, "bandwidth": 0.0}


def _worker() -> Any:
    try:
        return get_worker().name
    except ValueError:
        return "client"


def clock() -> Clock:
    """Return the device of the worker that runs this."""
    name = _worker()
    with _lock:
        return _clocks.setdefault(name, Clock(**_how))


def reset() -> None:
    """Begin anew: no counts, nothing encoded."""
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
    largest_exponents = _clocked("largest_exponents", NORMS)
    square_sums = _clocked("square_sums", NORMS)
    column_exponents = _clocked("column_exponents", NORMS)
    choose_exponents = _clocked("choose_exponents", COPY)
    multiply_magnitudes = _clocked("multiply_magnitudes", COPY)
    smallest_cosines = _clocked("smallest_cosines", COPY)
    largest_terms = _clocked("largest_terms", COPY)
    row_sums = _clocked("row_sums", COPY)

    def __init__(self) -> None:
        self._kept = cuda.PlanesInUse()

    @property
    def device(self) -> Any:
        """The device of the worker that asks."""
        return clock()

    @device.setter
    def device(self, device: Any) -> None:
        raise AttributeError(device)

    def magnitudes(self, samples: Any) -> Any:
        """Take them on the CPU: a few rows."""
        clock().take("magnitudes", 1e-5)
        return registry.get_engine("cpu").magnitudes(samples)

    def fetch(self, arrays: Sequence[Any]) -> list[Any]:
        """Copy to the host, and wait."""
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


async def _receive(get: Callable[..., Any], rpc: Any, keys: Any, worker: str, **o: Any):
    """Fetch blocks from another worker, as slowly as the link."""
    found = await get(rpc, keys, worker, **o)
    data = found.get("data", {}).values()
    nbytes = AREA * sum(int(getattr(x, "nbytes", 0)) for x in data)
    seconds = clock().link.take(nbytes, _how["dilation"])
    clock().counts["received"] += nbytes
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

    load, get_data = registry.get_engine, worker.get_data_from_worker

    def get_engine(name: str = "cpu") -> Any:
        return _engine if name == "cuda" else load(name)

    def receive(*given: Any, **options: Any) -> Any:
        return _receive(get_data, *given, **options)

    reset()
    _how.update(dilation=dilation, bandwidth=bandwidth)
    with (
        mock.patch.object(spec, "get_engine", get_engine),
        mock.patch.dict(registry._OF_FAMILY, numpy="cuda"),
        mock.patch.object(tasks, "encoded_tiles", _Caches()),
        mock.patch.object(tasks, "on_worker", return_value=True),
        mock.patch.object(turns, "PANEL_VOLUME", turns.PANEL_VOLUME // SCALE**3),
        mock.patch.object(run_devices, "measure_device", _measure_device),
        mock.patch.object(worker, "get_data_from_worker", receive),
    ):
        yield
    reset()


def report(name: Any = None) -> dict[str, Any]:
    """Return what the device of a worker did, and when."""
    own = clock() if name is None else _clocks.get(name, Clock())
    kept = _caches.get(_worker() if name is None else name)
    counters = cache.CacheCounters() if kept is None else kept.counters
    return {
        "counts": dict(own.counts),
        "seconds": dict(own.seconds),
        "log": list(own.log),
        "peak_bytes": own.peak_bytes,
        "encoded": counters.encoded,
        "reused": counters.reused,
    }
