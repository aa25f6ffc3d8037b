"""The places where products are timed: the CPU, and the current GPU."""

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.harness import Report, host_seconds


class Device(NamedTuple):
    """A place that takes arrays, and has a clock."""

    name: str
    send: Callable[[Any], Any]
    clock: Callable[[Callable[[], Any]], float]


def cpu() -> Device:
    """Return the CPU, which takes NumPy arrays."""
    return Device("cpu", lambda x: x, host_seconds)


def gpu(report: Report) -> Device:
    """Return the current GPU, which takes CuPy arrays, and name it in results."""
    import cupy

    from benchmarks.gpu_clock import describe_device, event_seconds

    own = f"{describe_device()}; "
    both = own + report.common["device"].removeprefix(own)
    report.common |= {"device": both, "cupy": cupy.__version__}
    return Device("gpu", cupy.asarray, event_seconds)
