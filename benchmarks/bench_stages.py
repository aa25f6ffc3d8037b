"""Measure each stage of products of NumPy arrays, in processor time, beside NumPy.

    python benchmarks/bench_stages.py --sizes 1024,2048 --without-products

Times are nanoseconds of all threads for each entry of C, the least of several rounds:
on a shared machine they vary less than the time that passes. ``--without-products``
leaves the int8 products out, and decodes arbitrary residues: where no unit multiplies
bytes, they take most of the time. Each call, and its page faults, follow one like it.
"""

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from resource import RUSAGE_SELF, getrusage
from typing import Any
from unittest import mock

import numpy as np

import twom_dist as td
from benchmarks.harness import Report, interleave, run
from twom_dist.kernels.cpu import engine as cpu
from twom_dist.run import eager

STAGES = (
    *("measure", "analyse", "error_sums", "choose_exponents"),
    *("encode", "multiply", "decode"),
    *("symmetrise_diagonal_tile", "mirror_tile"),
)
# Functions that the engine calls inside a stage.
INSIDE = ("multiply_planes", "fill_mirrors")


@contextmanager
def watch(products: bool) -> Iterator[tuple[Counter[str], Callable[..., Any]]]:
    """Yield the seconds of stages, without those inside them, and what times calls."""
    seconds, inside = Counter[str](), [0.0]

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            inside.append(0.0)
            start = time.process_time()
            try:
                return function(*given, **options)
            finally:
                taken = time.process_time() - start
                seconds[name] += taken - inside.pop()
                inside[-1] += taken

        return call

    # Small products would be computed at once, with no stage apart.
    limit = eager._limit_tiles

    def by_stages(problem: Any) -> Any:
        return replace(limit(problem), gemm_fused=None)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(eager, "_limit_tiles", by_stages))
        for owner, names in ((cpu.CpuEngine, STAGES), (cpu, INSIDE)):
            for name in names:
                given, static = getattr(owner, name), vars(owner)[name]
                if name == "multiply_planes" and not products:
                    given = _fill_planes
                found: Any = timed(name, given)
                if isinstance(static, staticmethod):
                    found = staticmethod(found)
                stack.enter_context(mock.patch.object(owner, name, found))
        yield seconds, timed


def _fill_planes(
    left: Any, right: Any, system: Any, every: Any, old: Any, hermitian: bool, _: Any
) -> None:
    """Fill residues in place of products."""
    pattern = np.arange(1 << 16).astype(np.int8) // 2
    for q in system.own_products(hermitian):
        residues = every[q].reshape(-1)
        for lo in range(0, residues.size, pattern.size):
            residues[lo : lo + pattern.size] = pattern[: residues.size - lo]


def time_stages(call: Callable[[], Any], products: bool) -> tuple[Counter[str], int]:
    """Return the seconds of the stages of a call, and its page faults."""
    time.sleep(0.1)  # BLAS threads spin after a call
    with watch(products) as (seconds, timed):
        call()  # leaves memory of the sizes that the next one takes
        before = getrusage(RUSAGE_SELF).ru_minflt
        seconds.clear()
        timed("the rest", call)()
    return seconds, getrusage(RUSAGE_SELF).ru_minflt - before


def bench_stages(report: Report, args: Namespace) -> None:
    products = not args.without_products
    for n in args.sizes:
        parts = np.random.default_rng(0).standard_normal((2, 2, n, n))
        A, B = (x + 1j * y for x, y in parts)
        routines: dict[str, Callable[[], Any]] = {
            "gemm": partial(td.gemm, A, A, op_b="C", num_moduli=16),
            "herk": partial(td.herk, A, num_moduli=16),
            "gemm of two": partial(td.gemm, A, B, num_moduli=16),
            "default": partial(td.gemm, A, B),
            "numpy": partial(np.matmul, A, B),
        }
        clock = partial(time_stages, products=products)
        found = interleave(routines, args.repeats, clock)
        least = {
            name: {
                stage: round(min(x.get(stage, inf) for x, _ in runs) / n**2 * 1e9, 3)
                for stage in runs[0][0]
            }
            for name, runs in found.items()
        }
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
            page_faults={x: [faults for _, faults in y] for x, y in found.items()},
        )


if __name__ == "__main__":
    options = {"sizes": [1024, 2048], "repeats": 5, "without_products": False}
    run(__doc__, bench_stages, **options)
