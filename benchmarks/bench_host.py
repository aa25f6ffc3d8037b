"""Measure our own time for a small product, on hardware that does nothing.

python benchmarks/bench_host.py --on gpu --sides 64,512 --calls 2000

All of this package runs, from the call to the last launch; the device allocates on the
host and forgets launches. CuPy's allocations and the driver's launches come on top. Of
the CPU (``--on cpu``) one thread calls kernels that take their arguments and return. It
is processor time: other work on the machine counts as far as it shares a core.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from time import process_time
from typing import Any
from unittest import mock

import dask
import numba
import numpy as np

import twom_dist as td
from benchmarks.clock import POOL, Clock, on_numpy
from benchmarks.harness import Report, run
from twom_dist.kernels import registry
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


# Numbers of matrices whose moduli the sums of their rows decide, or pairs of rows.
_COSINES = 0.8, 0.5
_open = [False]
# Kernels of a few entries whose results decide what comes next.
_REAL = {"read_exponents", "rule_exponents", "split_powers", "_replace_sentinels"}


@cache
def _idle_kernel(kernel: Any) -> Any:
    """Make a kernel of the same arguments that does nothing."""
    count = kernel.py_func.__code__.co_argcount
    names = ", ".join(f"x{i}" for i in range(count))
    given = {"nogil": True, "_nrt": kernel.targetoptions.get("_nrt", True)}
    return numba.njit(**given)(eval(f"lambda {names}: None"))


@numba.njit(nogil=True)
def _idle_measure(x, a, b, of_all, largest, sums, ends, lo, hi, place):  # type: ignore[no-untyped-def]
    """Find numbers below 1."""
    largest[:] = 0


@numba.njit(nogil=True)
def _idle_weigh(  # type: ignore[no-untyped-def]
    given, exponents, known, scaling, form, by_bytes, by_words, cut, out, lo, hi, found
):
    """Choose exponents of rows that are finite."""
    exponents[:] = 0


def _idle_count(x, ends, lo, hi, out):  # type: ignore[no-untyped-def]
    """Count all entries of a row in the octave of the largest but three."""
    out[...] = x.shape[1] * (ends > 2)


def _idle_reduce(*given: Any) -> None:
    """Find numbers that angles decide by, or not; no columns that gain anything."""
    given[-2][...], given[-1][...] = _COSINES[_open[0]], 1 << 42


@contextmanager
def idle_cpu() -> Iterator[None]:
    """Let the kernels of the CPU do nothing."""
    registry.get_engine("cpu")
    own = [sys.modules[x] for x in sys.modules if x.startswith("twom_dist.kernels.cpu")]
    kind = type(numba.njit(_idle_kernel.__wrapped__))
    ours: Any = {
        "analysis._reduce": _idle_reduce,
        "_count": _idle_count,
        "_measure_along": _idle_measure,
        "_measure_across": _idle_measure,
        "_write_planes": _idle_weigh,
    }
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"twom-dist.threads": 1}))
        for module in own:
            for name, found in [*vars(module).items()]:
                stem = module.__name__.rpartition(".")[2]
                idle = ours.get(f"{stem}.{name}", ours.get(name))
                if idle is None and isinstance(found, kind) and name not in _REAL:
                    # Kernels that Python never calls stay for the real ones.
                    inside = found.targetoptions.get("no_cpython_wrapper")
                    idle = None if inside else _idle_kernel(found)
                if idle is not None:
                    stack.enter_context(mock.patch.object(module, name, idle))
        yield


def bench_host(report: Report, args: Namespace) -> None:
    on = args.on
    with idle_device() if on == "gpu" else idle_cpu():
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
                cases["gemm by default, octaves"] = partial(td.gemm, A, B)
            for name, call in cases.items():
                _open[0] = name.endswith("octaves")
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
