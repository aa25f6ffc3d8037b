"""Measure products on workers against `dask.array`'s: time and memory.

Parts: ``shared`` (``A^H A`` of a tall matrix in memory, of which two workers share
k, against all of it on one worker), ``memory`` (what the fuller of two workers takes
above what it took once it had multiplied something, and the CPU time of both, beside
``@``: of matrices that lie on the workers, or that the graph draws, or reads from files
in memory, and that are held or made again), ``leaving`` (the sum of a product that the
workers cannot hold).

    python benchmarks/bench_workers.py --rows 60000 --columns 640
"""

import gc
import os
import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
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


def _square(call: Callable[..., Any], *operands: Any) -> Any:
    return call(operands[0], operands[-1])


def _gram(call: Callable[..., Any], a: Any) -> Any:
    return td.herk(a, op="C") if call is td.gemm else call(a.conj().T, a)


# Shapes of the matrices, chunks, the product, and where they lie: on the workers, in
# files, or nowhere before they are drawn.
MEMORY: dict[str, tuple[list[tuple[int, int]], Any, Callable[..., Any], str]] = {
    "tall, persisted": ([(3000, 1500), (1500, 3000)], 500, _square, "workers"),
    "square, persisted": ([(3072, 3072)] * 2, 512, _square, "workers"),
    "square": ([(3072, 3072)] * 2, 512, _square, ""),
    "stored square": ([(3072, 3072)] * 2, 512, _square, "files"),
    "large stored square": ([(6144, 6144)] * 2, 1024, _square, "files"),
    "gram": ([(160_000, 320)], (2000, 320), _gram, ""),
    "stored gram": ([(160_000, 320)], (2000, 320), _gram, "files"),
}


def _cpu_seconds() -> float:
    return sum(os.times()[:2])


def _store(matrix: Any, path: Path) -> Any:
    """Write a matrix tile by tile, if it is not there, and return it as it is read."""
    if not path.exists():
        matrix.to_zarr(path)
    return da.from_zarr(path)


def _take_memory(
    case: str, folder: Path, call: Callable[..., Any], inputs: str
) -> tuple[int, float]:
    """Return the bytes of the fuller of two workers, and CPU seconds of both."""
    shapes, chunks, multiply, where = MEMORY[case]
    matrices = [draw_lazily(x, chunks, seed) for seed, x in enumerate(shapes)]
    if where == "files":
        paths = (folder / f"{case}-{n}.zarr" for n in range(len(shapes)))
        matrices = [*map(_store, matrices, paths)]
    with start_client(2) as client, dask.config.set({"twom-dist.inputs": inputs}):
        # Whatever is loaded and compiled is there beforehand.
        small = [draw_lazily((64, 64), 32, seed) for seed, _ in enumerate(shapes)]
        multiply(call, *small).compute()
        client.run(gc.collect)
        sampler = Sampler(client, 0.005)
        sampler.taken()
        before = dict(sampler.process_bytes)
        if where == "workers":
            matrices = [*client.persist(matrices)]
            wait(matrices)
        sampler.process_bytes.clear()
        used = sum(client.run(_cpu_seconds).values())
        with sampler:
            wait(client.persist(multiply(call, *matrices)))
        used = sum(client.run(_cpu_seconds).values()) - used
        return max(sampler.process_bytes[x] - before[x] for x in before), used


def bench_memory(report: Report, args: Namespace) -> None:
    """Take the memory of small products on two workers, inputs included."""
    for case in args.cases or MEMORY:
        shapes, chunks, _, where = MEMORY[case]
        ways = {"dask": (da.matmul, "auto"), "gemm": (td.gemm, "auto")}
        if where != "workers":
            ways |= {"hold": (td.gemm, "hold"), "stream": (td.gemm, "stream")}
        with TemporaryDirectory(dir="/dev/shm") as folder:
            take = partial(_take_memory, case, Path(folder))
            taken = [
                {name: take(*way) for name, way in ways.items()}
                for _ in range(args.repeats)
            ]
        peaks, seconds = ({x: [t[x][n] for t in taken] for x in ways} for n in (0, 1))
        report.add(
            "memory",
            case=case,
            shapes=shapes,
            tile=chunks,
            workers=2,
            peak_bytes=medians(peaks),
            cpu_seconds=medians(seconds),
            peaks=peaks,
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
    options = {"rows": 60_000, "columns": 640, "repeats": 3, "cases": []}
    run(__doc__, bench_shared, bench_memory, bench_leaving, **options)
