"""Joules, clock and temperature of a GPU that repeats a call, as NVML counts them."""

import sys
from collections.abc import Callable
from functools import partial
from math import ceil
from statistics import median
from time import perf_counter
from typing import Any

import cupy as cp

from benchmarks.gpu_clock import random_pair
from benchmarks.gpu_products import NUM_MODULI, gemm
from benchmarks.harness import Report
from twom_dist.kernels.cuda.device import CudaDevice

QUANTITIES: dict[str, Callable[[Any, Any], int]] = {
    "millijoules": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
    "megahertz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "celsius": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(
        gpu, nvml.NVML_TEMPERATURE_GPU
    ),
}
# Calls that are queued at once take about this long: the device never runs out of
# calls, and its clock is read in between.
QUEUED_SECONDS, ENERGY_SECONDS = 0.1, 2.0


class Meter:
    """NVML's meter of a GPU; what it cannot read is None."""

    def __init__(self, bus_id: str) -> None:
        self._gpu = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
            self._gpu = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)
        except Exception as error:  # there is no class of NVML's without NVML
            print(f"warning: no joules: {error}", file=sys.stderr)

    def read(self, quantity: str) -> int | None:
        if self._gpu is None:
            return None
        try:
            return QUANTITIES[quantity](self._nvml, self._gpu)
        except (self._nvml.NVMLError, AttributeError):
            return None


def measure_energy(call: Callable[[], Any], meter: Meter) -> dict[str, float | None]:
    """Repeat a call for some seconds; return joules, watts, clock and temperature."""
    synchronize = cp.cuda.get_current_stream().synchronize

    def run(count: int) -> int | None:
        for _ in range(count):
            call()
        found = meter.read("megahertz")
        synchronize()
        return found

    run(1)
    start = perf_counter()
    run(1)
    queued = ceil(QUEUED_SECONDS / (perf_counter() - start))
    before, start, calls, clocks = meter.read("millijoules"), perf_counter(), 0, []
    while perf_counter() - start < ENERGY_SECONDS:
        clocks.append(run(queued))
        calls += queued
    elapsed, after = perf_counter() - start, meter.read("millijoules")
    joules = None if before is None or after is None else (after - before) / 1e3
    known = [x for x in clocks if x is not None]
    return {
        "seconds": elapsed / calls,
        "joules": None if joules is None else joules / calls,
        "watts": None if joules is None else joules / elapsed,
        "megahertz": median(known) if known else None,
        "celsius": meter.read("celsius"),
    }


def bench_energy(report: Report, n: int, meter: Meter) -> None:
    """Measure the joules of n x n products, of cuBLAS's int8 products, and of zgemm."""
    A, B = random_pair(n)
    device, planes = CudaDevice(), 8
    x = cp.random.randint(-128, 128, (planes, n, n), cp.int8)
    sums = cp.empty((planes, n, n), cp.int32)
    int8 = partial(device.multiply, x, x, sums)
    candidates: dict[str, tuple[Callable[[], Any], int]] = {
        "2m": (partial(gemm, A, B), 4 * NUM_MODULI * n**3),
        "cublas int8": (int8, 2 * planes * n**3),
        "cupy.matmul": (partial(cp.matmul, A, B), 8 * n**3),
    }
    for name, (call, operations) in candidates.items():
        found = measure_energy(call, meter)
        joules = found["joules"]
        each = None if joules is None else 1e12 * joules / operations
        fields = {"operations": operations, "picojoules_per_operation": each}
        report.add("gpu-energy", n=n, candidate=name, **fields, **found)
