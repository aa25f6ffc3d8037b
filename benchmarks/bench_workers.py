"""Measure products on workers against `dask.array`'s: time and memory.

Parts: ``shared`` (``A^H A`` of a tall matrix in memory, of which two workers share
k, against all of it on one worker), ``memory`` (3000 x 1500 times 1500 x 3000 in tiles
of 500 on two workers: memory beside ``@``), ``leaving`` (the sum of a product that the
workers cannot hold).

    python benchmarks/bench_workers.py --rows 60000 --columns 640
"""

import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import dask.array as da
from dask.utils import parse_bytes
from distributed import wait

import twom_dist as td
from benchmarks.harness import (
    Report,
    draw_lazily,
    interleave,
    medians,
    ratios,
    run,
    start_client,
)
from benchmarks.sampler import Sampler
from twom_dist.errors import MemoryWarning
from twom_dist.plan import planner

CHUNK = 2000
CANDIDATES: dict[str, Callable[..., Any]] = {"dask": da.matmul, "gemm": td.gemm}


def bench_shared(report: Report, args: Namespace) -> None:
    """Multiply on two workers that share k, and on one of them."""
    choose = planner.choose_splits
    with start_client(2) as client:
        shape, chunks = (args.rows, args.columns), (CHUNK, args.columns)
        a = client.persist(draw_lazily(shape, chunks))
        wait(a)

        def shared() -> None:
            wait(client.persist(td.herk(a, op="C")))

        def alone() -> None:
            planner.choose_splits = lambda *given, **named: [
                x for x in choose(*given, **named) if x.layers == 1
            ]
            try:
                shared()
            finally:
                planner.choose_splits = choose

        candidates = {
            "shared": shared,
            "one worker": alone,
            "dask": lambda: wait(client.persist(a.conj().T @ a)),
        }
        seconds = interleave(candidates, args.repeats)
    report.add(
        "tall-workers",
        shape=a.shape,
        over_one_worker=ratios(seconds, "one worker"),
        over_dask=ratios(seconds, "dask"),
        seconds=seconds,
    )


def finish(client: Any, call: Callable[..., Any], *operands: Any) -> None:
    wait(client.persist(call(*operands)))


def bench_memory(report: Report, args: Namespace) -> None:
    """Take the memory of a small product on two workers, inputs included."""
    m, k, n = 3000, 1500, 3000
    peaks: dict[str, list[int]] = {name: [] for name in CANDIDATES}
    seconds: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for _ in range(args.repeats):
        for name, call in CANDIDATES.items():
            with start_client(2) as client:
                # Whatever is loaded and compiled is there beforehand.
                x = da.ones((64, 64), chunks=32, dtype=complex)
                call(x, x).compute()
                sampler = Sampler(client, 0.005)
                before = sampler.taken()
                inputs = [draw_lazily(shape, 500) for shape in ((m, k), (k, n))]
                a, b = client.persist(inputs)
                wait([a, b])
                with sampler:
                    made = partial(finish, client, call, a, b)
                    seconds[name] += interleave({name: made}, 3)[name]
                peaks[name].append(sampler.total_bytes - before)
    report.add(
        "memory",
        shape=(m, n, k),
        tile=500,
        workers=2,
        peak_bytes=medians(peaks),
        peaks=peaks,
        over_dask=median(seconds["dask"]) / median(seconds["gemm"]),
        seconds=seconds,
    )


def bench_leaving(report: Report, args: Namespace) -> None:
    """Sum a result that the worker could not hold, tile by tile."""
    m, k, tile, limit = 12_000, 500, 1000, parse_bytes("1.5 GiB")
    peaks, spilled, seconds = {}, {}, {}
    for name, call in CANDIDATES.items():
        with (
            start_client(1, 2, memory_limit=limit) as client,
            warnings.catch_warnings(),
            Sampler(client) as sampler,
        ):
            warnings.simplefilter("ignore", MemoryWarning)
            a = draw_lazily((m, k), (tile, k))
            timed = {name: lambda f=call, a=a: f(a, a.T).sum().compute()}
            seconds |= interleave(timed, args.repeats)
            plan = td.plan(td.gemm, a, a.T)
        peaks[name] = max(sampler.process_bytes.values())
        spilled[name] = sampler.spilled_bytes
    report.add(
        "leaving",
        shape=(m, m, k),
        result_bytes=m * m * 16,
        memory_limit=limit,
        planned_bytes=(plan.least_worker_bytes, plan.peak_worker_bytes),
        peak_process_bytes=peaks,
        spilled_bytes=spilled,
        median_seconds=medians(seconds),
    )


if __name__ == "__main__":
    options = {"rows": 60_000, "columns": 640, "repeats": 3}
    run(__doc__, bench_shared, bench_memory, bench_leaving, **options)
