"""Clocks of a GPU: whole calls, stages of a product, and the peak of the pool."""

from collections import defaultdict
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any
from unittest import mock

import cupy as cp
import numpy as np

from benchmarks.gpu_peers import version_name
from benchmarks.harness import Calls, interleave
from twom_dist.kernels.cuda.device import CudaDevice
from twom_dist.kernels.cuda.driver import ROW
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.run import prepared
from twom_dist.tiles import spec

STAGES = {
    "norms": ("largest_exponents", "choose_exponents"),
    "moduli": (*("analyse", "find_errors"), *("octaves", "multiply_octaves")),
    "encode": ("encode", "scale_and_encode", "copy_samples"),
    "int8 products": (
        *("multiply", "products", "products_mma", "products_tile"),
        *("samples_mma", "samples_wgmma"),
    ),
    "quarters": ("spread", "join"),
    "requantise": ("requantise", "widen"),
    "decode": ("decode", "decode_and_fill", "decode_samples"),
    "fill": ("mark_nonfinite", "fill_nonfinite"),
    "combine": ("combine",),
    "close": ("symmetrise_diagonal_tile", "mirror_tile"),
    "other": (),
}
STAGE_OF = {name: stage for stage, names in STAGES.items() for name in names}


class TimedDevice(CudaDevice):
    """A device that records an event around every call."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, Any, Any]] = []
        self._names: dict[int, str] = {}  # of kernels, by their addresses

    def _timed(self, name: str, call: Callable[..., None], *args: Any) -> None:
        start, stop = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        call(*args)
        stop.record()
        self.events.append((name, start, stop))

    def function(self, module: Any, name: str) -> int:
        found = super().function(module, name)
        self._names[found] = name
        return found

    def run(self, program: Any, bases: bytes) -> None:
        """Launch kernels one by one, each between two events."""
        for own in split(program):
            self._timed(self._names[int(own[-ROW])], super().run, own, bases)

    def multiply(self, *args: Any) -> None:
        self._timed("multiply", super().multiply, *args)

    def milliseconds(self) -> dict[str, float]:
        """Add up the times of each stage, and forget them."""
        cp.cuda.get_current_stream().synchronize()
        total: dict[str, float] = defaultdict(float)
        for name, start, stop in self.events:
            total[STAGE_OF.get(name, "other")] += cp.cuda.get_elapsed_time(start, stop)
        self.events.clear()
        return dict(total)


def split(program: Any) -> list[Any]:
    """Make a program of each launch of one."""
    words = len(program) - program[3]
    front, launches = program[:words].copy(), program[words:].reshape(-1, ROW)
    front[3] = ROW
    found = [np.concatenate([front, row]) for row in launches]
    for own in found:
        own[-2] = 0  # what an event is between does not overlap
    return found


def event_seconds(call: Callable[[], Any]) -> float:
    """Time a call on the device, from its first launch to the end of its last."""
    cp.cuda.get_current_stream().synchronize()
    start, stop = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    out = call()
    stop.record()
    stop.synchronize()
    del out
    return float(cp.cuda.get_elapsed_time(start, stop)) / 1e3


def time_calls(candidates: Calls, repeats: int) -> dict[str, list[float]]:
    return interleave(candidates, repeats, event_seconds)


def cublas_version() -> int:
    return int(cp.cuda.cublas.getVersion(cp.cuda.device.get_cublas_handle()))


def describe_device() -> str:
    """Return name, memory, CUDA and cuBLAS of the current device."""
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    return (
        f"{properties['name'].decode()}, {properties['totalGlobalMem'] >> 30} GiB, "
        f"CUDA {cp.cuda.runtime.runtimeGetVersion()}, "
        f"cuBLAS {version_name(cublas_version())}"
    )


def time_host(call: Callable[[], Any], rounds: int = 20, count: int = 10) -> Any:
    """Measure the host's microseconds for a call while the device is busy otherwise.

    The calls of a round, few enough for the driver's queue, follow products that take
    40 ms or more. "waited" is the share of rounds that outlasted these products, as
    they do if a call waits for the device: then the time is not only the host's.
    """
    A = random_matrix(4096)
    call()
    seconds, waited = [], 0
    for _ in range(rounds):
        for _ in range(4):
            cp.matmul(A, A)
        busy = cp.cuda.Event(disable_timing=True)
        busy.record()
        start = perf_counter()
        for _ in range(count):
            call()
        seconds.append((perf_counter() - start) / count)
        waited += busy.done
        busy.synchronize()
        cp.cuda.get_current_stream().synchronize()
    return {"microseconds": 1e6 * median(seconds), "waited": waited / rounds}


def random_matrix(rows: int, columns: int | None = None, seed: int = 0) -> Any:
    """Draw complex normal entries on the device, the same in every process."""
    shape = rows, rows if columns is None else columns
    random = cp.random.RandomState(seed)
    return random.standard_normal(shape) + 1j * random.standard_normal(shape)


def random_pair(n: int) -> tuple[Any, Any]:
    """Draw the two matrices of every n x n product."""
    return random_matrix(n, seed=1), random_matrix(n, seed=2)


def measure_phases(call: Callable[[], Any], repeats: int = 3) -> dict[str, float]:
    """Measure the median milliseconds of each stage by the device's clock."""
    device = TimedDevice()
    engine, load = CudaEngine(device), spec.get_engine

    def get_engine(name: str = "cpu") -> Any:
        return engine if name == "cuda" else load(name)

    runs = []
    # Prepared products, too, belong to an engine.
    with (
        mock.patch.object(spec, "get_engine", get_engine),
        mock.patch.object(prepared, "get_engine", get_engine),
    ):
        call()
        device.milliseconds()
        for _ in range(repeats):
            call()
            runs.append(device.milliseconds())
    return {stage: median(run.get(stage, 0.0) for run in runs) for stage in STAGES}


def measure_peak(call: Callable[[], Any]) -> int:
    """Return the most bytes that the pool holds, beyond those held before the call."""
    pool = cp.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    out = call()
    peak = pool.total_bytes() - before
    del out
    return int(peak)
