"""Measure our own time for a small product, on hardware that does nothing.

python benchmarks/bench_host.py --sides 64,512 --calls 2000
python benchmarks/bench_host.py --on vnni --sides 64,512 --calls 2000

All of this package runs, from the call to the last launch; the device allocates on the
host and forgets launches. CuPy's allocations and the driver's launches come on top. Of
the CPU, with VNNI or without, one thread calls kernels that take their arguments and
return. It is processor time: other work on the machine counts as far as it shares a
core.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from time import process_time
from typing import Any
from unittest import mock

import dask
import numba
import numpy as np
from harness import Report

import twom_dist as td
from benchmarks.clock import POOL, Clock
from twom_dist.kernels import registry
from twom_dist.kernels.cpu.products import int8_gemm
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.testing import random_matrix
from twom_dist.tiles import spec

MICRO = 1e6


class Idle(Clock):
    """A device that takes no time."""

    launches = 0

    def launch(self, *given: Any) -> None:
        """Count a launch whose arguments are packed anew."""
        self.launches += 1

    def launch_packed(self, *given: Any) -> None:
        """Count a launch."""
        self.launches += 1

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Allocate as NumPy does."""
        return np.empty(shape, dtype)

    def total_bytes(self) -> int:
        """Return the memory of a device, not of one that stands for a larger one."""
        return POOL

    def synchronize(self) -> None:
        """Wait for nothing."""

    def send(self, x: Any) -> Any:
        """Return the array itself."""
        return x


class _IdleEngine(CudaEngine):
    family = "numpy"


@contextmanager
def idle_device() -> Iterator[None]:
    """Let NumPy arrays be those of a device; launches are repeated by scripts."""
    load, engine = registry.get_engine, _IdleEngine(Idle())
    with (
        mock.patch.object(
            spec, "get_engine", lambda name: engine if name == "cuda" else load(name)
        ),
        mock.patch.dict(registry._OF_FAMILY, numpy="cuda"),
    ):
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
    given, exponents, known, scaling, form, weights, cut, out, lo, hi, found
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
def idle_cpu(vnni: bool) -> Iterator[None]:
    """Let the kernels of the CPU do nothing."""
    registry.get_engine("cpu")
    own = [sys.modules[x] for x in sys.modules if x.startswith("twom_dist.kernels.cpu")]
    kind = type(numba.njit(_idle_kernel.__wrapped__))
    of_what = int8_gemm.U8S8 if vnni else int8_gemm.FLOAT32
    gemm = replace(of_what, multiply=lambda a, b, sums: None)
    ours: Any = {
        "has_vnni": lambda: vnni,
        "get_gemm": lambda: gemm,
        "_LOOPS": gemm,
        "_reduce": _idle_reduce,
        "_count": _idle_count,
        "_measure_along": _idle_measure,
        "_measure_across": _idle_measure,
        "_weigh_packed": _idle_weigh,
        "_weigh_groups": _idle_weigh,
    }
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"twom-dist.threads": 1}))
        for module in own:
            for name, found in [*vars(module).items()]:
                idle = ours.get(name)
                if idle is None and isinstance(found, kind) and name not in _REAL:
                    # Kernels that Python never calls stay for the real ones.
                    inside = found.targetoptions.get("no_cpython_wrapper")
                    idle = None if inside else _idle_kernel(found)
                if idle is not None:
                    stack.enter_context(mock.patch.object(module, name, idle))
        yield


def bench(report: Report, on: str, n: int, calls: int) -> None:
    """Time calls of n x n matrices."""
    A, B = (random_matrix(n, n, seed=seed) for seed in (1, 2))
    product = td.Product((n, n), (n, n), num_moduli=16)
    out = np.empty((n, n), complex)
    cases: dict[str, Callable[[], Any]] = {
        "gemm": lambda: td.gemm(A, B, num_moduli=16),
        "gemm into out": lambda: td.gemm(A, B, num_moduli=16, out=out),
        "herk": lambda: td.herk(A, num_moduli=16),
        "Product": lambda: product(A, B),
        "matmul": lambda: td.matmul(A, B, num_moduli=16),
    }
    if on != "gpu":
        cases["gemm by default"] = lambda: td.gemm(A, B)
        cases["matmul by default"] = lambda: td.matmul(A, B, method="2m")
        cases["gemm by default, octaves"] = lambda: td.gemm(A, B)
    for name, call in cases.items():
        _open[0] = name.endswith("octaves")
        call()
        call()
        best = float("inf")
        for _ in range(5):
            start = process_time()
            for _ in range(calls // 5):
                call()
            best = min(best, (process_time() - start) / (calls // 5))
        us = round(best * MICRO, 1)
        report.add("host" if on == "gpu" else f"host-{on}", routine=name, n=n, us=us)


def main() -> None:
    """Run the requested sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", default="64")
    parser.add_argument("--on", choices=["gpu", "vnni", "cpu"], default="gpu")
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    with idle_device() if args.on == "gpu" else idle_cpu(args.on == "vnni"):
        for side in args.sides.split(","):
            bench(report, args.on, int(side), args.calls)


if __name__ == "__main__":
    main()
