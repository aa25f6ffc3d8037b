"""Measure our own time for a small product: on a GPU that does nothing, or on the CPU.

python benchmarks/bench_host.py --on gpu --sides 64,512 --calls 2000

All of this package runs, from the call to the last launch; the device allocates on the
host and forgets launches. CuPy's allocations and the driver's launches come on top. On
the CPU (``--on cpu --sides 8``) one thread computes matrices so small that Python takes
most of the time. It is processor time: other work on the machine counts as far as it
shares a core.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import twom_dist as td
from benchmarks.clock import POOL, Clock, on_numpy
from benchmarks.harness import Report, run
from twom_dist.kernels.cpu.threads import limit_threads
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.testing import random_matrix


class Idle(Clock):
    """A device that takes no time."""

    def launch(self, *given: Any) -> None:
        """Do nothing; the arguments were packed anew."""

    def launch_packed(self, *given: Any) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Wait for nothing."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def total_bytes(self) -> int:
        return POOL

    def send(self, x: Any) -> Any:
        return x


@contextmanager
def idle_device() -> Iterator[None]:
    """Let NumPy arrays be those of a device; launches are repeated by scripts."""
    engine = CudaEngine(Idle())
    engine.family = "numpy"
    with on_numpy(engine):
        yield
    assert engine.scripts, "calls were timed that no device would make"


def bench_host(report: Report, args: Namespace) -> None:
    on = args.on
    with idle_device() if on == "gpu" else limit_threads(1):
        for n in args.sides:
            A, B = (random_matrix(n, n, seed=seed) for seed in (1, 2))
            out = np.empty((n, n), complex)
            cases: dict[str, Callable[[], Any]] = {
                "gemm": partial(td.gemm, A, B, num_moduli=16),
                "gemm into out": partial(td.gemm, A, B, num_moduli=16, out=out),
                "herk": partial(td.herk, A, num_moduli=16),
                "matmul": partial(td.matmul, A, B, num_moduli=16),
            }
            if on != "gpu":
                cases["gemm by default"] = partial(td.gemm, A, B)
                cases["matmul by default"] = partial(td.matmul, A, B, method="2m")
            for name, call in cases.items():
                us = round(1e6 * least_seconds(call, args.calls // 5), 1)
                benchmark = "host" if on == "gpu" else f"host-{on}"
                report.add(benchmark, routine=name, n=n, us=us)


def least_seconds(call: Callable[[], Any], count: int) -> float:
    """Return the processor time of a call, the least of five means of `count`."""
    call()
    call()
    found = []
    for _ in range(5):
        start = process_time()
        for _ in range(count):
            call()
        found.append((process_time() - start) / count)
    return min(found)


if __name__ == "__main__":
    run(__doc__, bench_host, sides=[64], on="gpu", calls=5000)
