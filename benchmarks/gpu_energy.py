"""Joules, clock and temperature of a GPU that repeats a call, as NVML counts them."""

import sys
from collections.abc import Callable
from math import ceil
from statistics import median
from time import perf_counter
from typing import Any

QUANTITIES: dict[str, Callable[[Any, Any], int]] = {
    "millijoules": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
    "megahertz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "celsius": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(
        gpu, nvml.NVML_TEMPERATURE_GPU
    ),
}
# Calls that are queued at once take about this long: the device never runs out of
# calls, and its clock is read in between.
QUEUED_SECONDS = 0.1


class Meter:
    """NVML's meter of a GPU; what it cannot read is None, with one warning."""

    def __init__(self, bus_id: str) -> None:
        self._missing: set[str] = set()
        try:
            import pynvml

            pynvml.nvmlInit()
            self._gpu = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)
        except Exception as error:  # there is no class of NVML's without NVML
            print(f"warning: no joules: {error}", file=sys.stderr)
            self._missing |= QUANTITIES.keys()
        else:
            self._nvml = pynvml

    def read(self, quantity: str) -> int | None:
        """Read one of `QUANTITIES`."""
        if quantity in self._missing:
            return None
        try:
            return QUANTITIES[quantity](self._nvml, self._gpu)
        except (self._nvml.NVMLError, AttributeError) as error:
            self._missing.add(quantity)
            print(f"warning: NVML cannot tell {quantity} ({error})", file=sys.stderr)
            return None


def measure_energy(
    call: Callable[[], Any],
    meter: Meter,
    synchronize: Callable[[], None],
    seconds: float = 2.0,
) -> dict[str, float | None]:
    """Repeat a call for some seconds; return joules, watts, clock and temperature."""

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
    while perf_counter() - start < seconds:
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
