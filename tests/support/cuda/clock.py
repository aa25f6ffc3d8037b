"""A device in the place of a GPU that only keeps a clock; see `clocked`."""

import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any
from unittest import mock

import numpy as np

from tests.support.cuda.host_device import HostDevice
from twom_dist.kernels import registry
from twom_dist.kernels.cuda.packing import flatten
from twom_dist.run import prepared
from twom_dist.tiles import spec

# Side of a block that stands for one 64 times as large, and what areas grow by.
SCALE = 64
AREA = SCALE**2
GIB = 2**30
# An H100, complex128, n = 8192 (gpu.jsonl): bytes per second of the passes, operations
# per second of 32 int8 products; 2.4 TB/s is what copies reach of its memory. Products
# of dask arrays of 24576 took an H100 1.12 (gemm) and 1.10 (herk) times as long as this
# clock says (dask-gpu.jsonl); which of these numbers is to blame was not measured.
NORMS, ENCODE, DECODE = 4 * GIB / 1.46e-3, 6 * GIB / 2.48e-3, 3 * GIB / 1.61e-3
OPERATIONS, COPY = 64 * 8192**3 / 24.6e-3, 2.4e12
FILL = 0.135e-3 / 8192**2
# Memory of an H100, and what a pool of 0.9 of it leaves.
POOL = int(0.9 * 79.1 * GIB)
CAPABILITY = 90


class Clock(HostDevice):
    """The device of one worker: when it is done, and with what."""

    def __init__(self, dilation: float = 1.0) -> None:
        super().__init__(None, CAPABILITY)
        self.dilation = dilation
        self.busy, self.own = 0.0, threading.local()
        self.counts: Counter[str] = Counter()
        self.made_bytes = self.peak_bytes = 0
        self._mapped: list[Any] = []
        self._lock = threading.RLock()

    def take(self, what: str, seconds: float) -> None:
        with self._lock:
            start = max(time.perf_counter(), self.busy)
            self.busy = self.own.busy = start + seconds * self.dilation
            self.counts[what] += 1

    def synchronize(self) -> None:
        self.counts["wait"] += 1
        time.sleep(max(0.0, getattr(self.own, "busy", 0.0) - time.perf_counter()))

    def stream_id(self) -> int:
        """Name the thread."""
        return threading.get_ident()

    def record(self) -> float:
        return float(getattr(self.own, "busy", 0.0))

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
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

    def map_planes(self, address: int, shape: tuple[int, int, int]) -> Any:
        """Remember the planes of the next product."""
        self._mapped.append(shape)
        return bytes(128)

    def total_bytes(self) -> int:
        return POOL // AREA

    def multiprocessors(self) -> int:
        return 132

    def launch(
        self, module: Any, name: str, grid: Any, block: Any, args: Any, shared: int = 0
    ) -> None:
        args = [*flatten(args)]
        arrays = [x for x in args if isinstance(x, np.ndarray) and x.ndim > 1]
        nbytes = AREA * sum(x.nbytes for x in arrays)
        if module.family in ("products", "products_mma"):
            (_, m, k), (_, n, _) = self._mapped[-2:] or [x.shape for x in args[:2]]
            self._mapped.clear()
            jobs = next(x for x in arrays if x.dtype == np.int32 and x.shape[1] == 4)
            # Before the matrices of a stack, and the squares to begin and end with.
            triangle = int(args[-3 if name == "products_mma" else -4])
            share = 0.5 + 128 / (m * SCALE) if triangle else 1.0
            operations = share * len(jobs) * 2 * m * n * k * SCALE**3
            # A small block stands for what products.cu multiplies.
            self.take("products", operations / OPERATIONS)
        elif name in ("mark_nonfinite", "fill_nonfinite"):
            marks = next(x for x in arrays if x.dtype == np.uint8)
            self.take(name, FILL * AREA * marks.size)
        else:
            rates = {"encode": ENCODE, "decode": DECODE}
            self.take(name, nbytes / rates.get(name, COPY))


@contextmanager
def on_numpy(engine: Any) -> Iterator[None]:
    """Give NumPy's arrays to an engine of devices."""
    load = registry.get_engine

    def get_engine(name: str = "cpu") -> Any:
        return engine if name == "cuda" else load(name)

    with (
        mock.patch.object(spec, "get_engine", get_engine),
        mock.patch.object(prepared, "get_engine", get_engine),
        mock.patch.dict(registry._OF_FAMILY, numpy="cuda"),
    ):
        yield
