"""Measure the overhead of a task: building, sending and scheduling it.

The graphs are those of products on two worker processes that do no work in any task.

    python benchmarks/bench_scheduler.py --tiles 1000,5000,20000
"""

import os
import resource
import time
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from math import isqrt
from statistics import median
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, futures_of, wait

import twom_dist as td
from benchmarks.harness import Report, run, start_client
from benchmarks.sampler import Sampler

# Where workers look up functions that tasks call.
CALLS = "twom_dist.tiles.dask.calls"
WORK = "run", "receive", "receive_added"
# Tiles along k in the empty graphs: as many as a panel of 2 GiB has at 2048 x 2048.
K_TILES = 16
ROUTINES: dict[str, Callable[..., Any]] = {
    "gemm": lambda a, b, **more: td.gemm(a, b, op_b="T", num_moduli=16, **more),
    "herk": lambda a, b, **more: td.herk(a, num_moduli=16, **more),
}


def finish(collection: Any) -> None:
    """Wait for all blocks, and raise the error of any that failed."""
    wait(collection)
    for future in futures_of(collection):
        if future.status != "finished":
            future.result()


def replace_work() -> None:
    """Make every task of this process return the same tiny tile without work."""
    tile = np.zeros((1, 1), complex)
    module = import_module(CALLS)
    for name in WORK:
        assert callable(getattr(module, name))
        setattr(module, name, lambda *_: tile)


def count_known(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def bench_scheduler(report: Report, args: Namespace) -> None:
    """Run graphs whose tiles have one entry: only their number matters here."""
    with start_client(2) as client:
        client.run(replace_work)
        for routine in args.routines:
            run_empty(client, routine, 10, 0)  # loads modules
            for tiles in args.tiles:
                bench_tiles(report, client, routine, tiles, args.repeats)


def run_empty(
    client: Client, routine: str, rows: int, turn: int
) -> tuple[int, dict[str, float]]:
    """Build, send and run a graph of new tasks; return their number and the seconds."""
    A = client.persist(da.zeros((rows, K_TILES), dtype=complex, chunks=1))
    finish(A)
    inputs = client.run_on_scheduler(count_known)
    start = time.perf_counter()
    C = ROUTINES[routine](A, A, alpha=turn + 1)
    built = time.perf_counter()
    # Aliases are scheduled, too; an update has one for each computed tile.
    tasks = len(C.__dask_graph__().layers[C.name])
    # The event loop's thread is the scheduler's: its CPU time counts.
    before = client.run_on_scheduler(time.thread_time)
    started = time.perf_counter()
    C = client.persist(C)
    sent = time.perf_counter()
    wait(C)
    done = time.perf_counter()
    busy = client.run_on_scheduler(time.thread_time) - before
    finish(C)
    del C
    # The next graph is built only after the scheduler has forgotten this one.
    while client.run_on_scheduler(count_known) > inputs:
        time.sleep(0.1)
    return tasks, {
        "build": built - start,
        "send": sent - started,
        "all": done - started,
        "scheduler": busy,
    }


def bench_tiles(
    report: Report, client: Client, routine: str, tiles: int, repeats: int
) -> None:
    rows = isqrt(tiles if routine == "gemm" else 2 * tiles)
    load = os.getloadavg()[0]
    with Sampler(client) as sampler:
        runs = [run_empty(client, routine, rows, turn) for turn in range(repeats)]
    tasks = runs[0][0]
    seconds = {name: [times[name] for _, times in runs] for name in runs[0][1]}
    each = {name: median(times) / tasks for name, times in seconds.items()}
    report.add(
        "scheduler-empty",
        routine=routine,
        tiles=rows**2 if routine == "gemm" else rows * (rows + 1) // 2,
        tasks=tasks,
        build_microseconds=1e6 * each["build"],
        send_microseconds=1e6 * each["send"],
        scheduler_milliseconds=1e3 * each["scheduler"],
        wall_milliseconds=1e3 * each["all"],
        # Client and scheduler.
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        load=load,
        other_cores=sampler.other_cores,
        seconds=seconds,
    )


if __name__ == "__main__":
    tiles, routines = [1000, 5000, 20000], [*ROUTINES]
    run(__doc__, bench_scheduler, tiles=tiles, routines=routines, repeats=2)
