"""Measure each stage of products of NumPy arrays, in processor time, beside NumPy.

    python benchmarks/bench_stages.py --sizes 1024 2048 --without-products

Times are nanoseconds of all threads for each entry of C, the least of several rounds:
on a shared machine they vary less than the time that passes. ``--without-products``
leaves the int8 products out, and decodes arbitrary residues: where no unit multiplies
bytes, they take most of the time. Each call, and its page faults, follow one like it.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from resource import RUSAGE_SELF, getrusage
from typing import Any
from unittest import mock

import numpy as np

import twom_dist as td
from benchmarks.harness import Report
from twom_dist.kernels.cpu import engine as cpu
from twom_dist.kernels.cpu.products.multiply import own_products
from twom_dist.run import eager

STAGES = (
    *("measure", "analyse", "error_sums", "choose_exponents"),
    *("encode", "multiply", "decode"),
    *("close_diagonal", "mirror_tile"),
)
# Functions that the engine calls inside a stage.
INSIDE = ("multiply_planes", "fill_mirrors")


class Stages:
    """Seconds of each stage, without those of the stages inside it."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._inside = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Time the calls of a function."""

        def call(*given: Any, **options: Any) -> Any:
            self._inside.append(0.0)
            start = time.process_time()
            try:
                return function(*given, **options)
            finally:
                taken = time.process_time() - start
                self.seconds[name] += taken - self._inside.pop()
                self._inside[-1] += taken

        return call

    @contextmanager
    def watch(self, products: bool) -> Iterator[None]:
        """Time all stages of the CPU engine."""
        with ExitStack() as stack:
            # Small products would be computed at once, with no stage apart.
            limit = eager._limit_tiles

            def by_stages(problem: Any) -> Any:
                return replace(limit(problem), at_once=None)

            stack.enter_context(mock.patch.object(eager, "_limit_tiles", by_stages))
            for owner, names in ((cpu.CpuEngine, STAGES), (cpu, INSIDE)):
                for name in names:
                    given, static = getattr(owner, name), vars(owner)[name]
                    if name == "multiply_planes" and not products:
                        given = _fill_planes
                    found: Any = self.timed(name, given)
                    if isinstance(static, staticmethod):
                        found = staticmethod(found)
                    stack.enter_context(mock.patch.object(owner, name, found))
            yield


def _fill_planes(
    left: Any, right: Any, system: Any, every: Any, old: Any, hermitian: bool, _: Any
) -> None:
    """Fill residues in place of products."""
    pattern = np.arange(1 << 16).astype(np.int8) // 2
    for q in own_products(system, hermitian):
        residues = every[q].reshape(-1)
        for lo in range(0, residues.size, pattern.size):
            residues[lo : lo + pattern.size] = pattern[: residues.size - lo]


def bench(report: Report, n: int, repeats: int, products: bool) -> None:
    """Time the stages of products of one size."""
    parts = np.random.default_rng(0).standard_normal((2, 2, n, n))
    A, B = (x + 1j * y for x, y in parts)
    routines: dict[str, Callable[[], Any]] = {
        "gemm": lambda: td.gemm(A, A, op_b="C", num_moduli=16),
        "herk": lambda: td.herk(A, num_moduli=16),
        "gemm of two": lambda: td.gemm(A, B, num_moduli=16),
        "default": lambda: td.gemm(A, B),
        "numpy": lambda: A @ B,
    }
    least: dict[str, dict[str, float]] = {name: {} for name in routines}
    faults: dict[str, list[int]] = {name: [] for name in routines}
    for turn in range(repeats + 1):
        for name, call in routines.items():
            time.sleep(0.1)  # BLAS threads spin after a call
            stages = Stages()
            with stages.watch(products):
                call()  # leaves memory of the sizes that the next one takes
                before = getrusage(RUSAGE_SELF).ru_minflt
                stages.seconds.clear()
                stages.timed("the rest", call)()
            if turn == 0:
                continue
            faults[name].append(getrusage(RUSAGE_SELF).ru_minflt - before)
            for stage, seconds in stages.seconds.items():
                taken = round(seconds / n**2 * 1e9, 3)
                least[name][stage] = min(taken, least[name].get(stage, taken))
    passes = {
        name: sum(t for stage, t in own.items() if stage != "multiply_planes")
        for name, own in least.items()
    }
    report.add(
        "stages",
        n=n,
        products=products,
        nanoseconds=least,
        passes=passes,
        passes_over_numpy={x: t / passes["numpy"] for x, t in passes.items()},
        gemm_over_herk={
            stage: taken / least["herk"][stage]
            for stage, taken in least["gemm"].items()
            if least["herk"].get(stage)
        },
        page_faults=faults,
    )


def main() -> None:
    """Run the requested sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--without-products", action="store_true")
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    for n in args.sizes:
        bench(report, n, args.repeats, not args.without_products)


if __name__ == "__main__":
    main()
