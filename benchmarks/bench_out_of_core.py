"""Measure jobs on files larger than the workers' memory, and what may go wrong.

Parts: ``waves`` (a product of matrices of several times the workers' memory: time,
memory of every worker, bytes read against those of the layout), ``lost`` (the same
undisturbed, with a worker killed after half of that time, and undisturbed again),
``soak`` (many small jobs on one cluster, and what they leave behind). m and n are
``--size``, k is ``--depth``.

    python benchmarks/bench_out_of_core.py --size 22528 --depth 2816 --folder /big/disk
"""

import filecmp
import logging
import os
import shutil
import signal
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import mean
from threading import Timer
from typing import Any

import numpy as np
import psutil
from dask.utils import parse_bytes

import twom_dist as td
from benchmarks.harness import Report, run, wall_seconds
from benchmarks.sampler import Sampler
from tests.nightly.soak.test_soak import measure, run_products
from tests.support.jobs import task_names, wait_until
from twom_dist.jobs import JobSummary, begin, compute, open_job
from twom_dist.plan import Cluster, Layout
from twom_dist.plan.memory import INTERPRETER_BYTES
from twom_dist.tiles.placement import plugin
from twom_dist.workers.client import current_cluster

ITEM_BYTES = 16
STRIP = 512
# Number of products before the first look: they load modules, kernels and buffers.
WARM = 18


def count_reads() -> None:
    """Make this process add up the bytes that it reads from matrices."""
    from twom_dist.store import reader

    read = reader.StoredMatrix.__getitem__

    def counting(self: Any, index: Any) -> Any:
        values = read(self, index)
        reader.bytes_read += values.nbytes
        return values

    reader.bytes_read = 0
    reader.StoredMatrix.__getitem__ = counting


def get_reads() -> int:
    from twom_dist.store import reader

    return int(reader.bytes_read)


def plan_layout(layout: Layout, workers: int) -> tuple[int, int]:
    """Return the bytes that a layout reads, and the peak of the fullest worker."""
    read = peak = 0
    for wave in layout.waves:
        m, n, k = layout.grid_of(wave).shape
        read += ITEM_BYTES * k * (m + n)
        peak = max(peak, layout.plan(wave, Cluster(workers)).peak_worker_bytes)
    return read, peak


def write_random(path: str, rows: int, columns: int, seed: int) -> None:
    """Write a matrix of normal numbers."""
    rng = np.random.default_rng(seed)
    out = np.lib.format.open_memmap(path, "w+", "c16", (rows, columns))
    for start in range(0, rows, STRIP):
        stop = min(rows, start + STRIP)
        out[start:stop] = rng.standard_normal((stop - start, 2 * columns)).view("c16")


@contextmanager
def inputs(args: Namespace, outputs: int) -> Iterator[None]:
    """Write A and B, square or flat, to a folder with room for `outputs` results."""
    n, k = args.size, args.depth
    needed = ITEM_BYTES * (2 * n * k + outputs * n * n)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, chdir(folder):
        free = shutil.disk_usage(folder).free
        if free < 1.1 * needed:
            raise SystemExit(
                f"{folder!r} has {free / 2**30:.0f} GiB free and {needed / 2**30:.0f} "
                "are needed; name another with --folder, or a smaller --size"
            )
        write_random("A.npy", n, k, 1)
        write_random("B.npy", k, n, 2)
        yield


def start_workers(count: int, memory_bytes: int) -> Any:
    """Start workers of one thread on the cores."""
    return td.local_cluster(
        n_workers=count,
        threads_per_worker=1,
        memory_limit=memory_bytes,
        gpus=False,
        security=False,
        silence_logs=logging.CRITICAL,
    )


@contextmanager
def workers(args: Namespace) -> Iterator[Any]:
    """Start workers that have multiplied once."""
    with start_workers(args.n_workers, parse_bytes(args.memory_limit)) as client:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            run_products(client, 3)
        os.sync()  # so that earlier writes cost no measured time
        yield client


def multiply(
    client: Any, output: str, num_moduli: int, threads: tuple[Any, ...] = ()
) -> tuple[Layout, JobSummary]:
    """Multiply the files while these threads run."""
    job = open_job(td.gemm.ask("A.npy", "B.npy", num_moduli=num_moduli), output)
    with begin(job, current_cluster(), client=client) as run:
        for thread in threads:
            thread.start()
        return run.layout, compute(run, client)


def bench_waves(report: Report, args: Namespace) -> None:
    """Multiply in waves, and compare with the layout."""
    with inputs(args, outputs=1), workers(args) as client:
        client.run(count_reads)
        with Sampler(client) as sampler:
            layout, summary = multiply(client, "C.npy", args.num_moduli)
        read = sum(client.run(get_reads).values())
        matrices = sum(os.path.getsize(f"{name}.npy") for name in "ABC")
    planned_read, planned_peak = plan_layout(layout, args.n_workers)
    memory = args.n_workers * parse_bytes(args.memory_limit)
    report.add(
        "out-of-core",
        **describe(args, summary),
        matrices_over_memory=matrices / memory,
        waves=summary.waves,
        total_seconds=summary.seconds,
        gflops=summary.gflops,
        planned_managed_bytes=planned_peak,
        managed_bytes=sorted(sampler.managed_bytes.values()),
        planned_process_bytes=planned_peak + INTERPRETER_BYTES,
        process_bytes=sorted(sampler.process_bytes.values()),
        spilled_bytes=sampler.spilled_bytes,
        paused=sampler.paused,
        planned_read_bytes=planned_read,
        read_bytes=read,
        read_over_planned=read / planned_read,
        other_cores=sampler.other_cores,
    )


def describe(args: Namespace, summary: JobSummary) -> dict[str, Any]:
    return {
        "shape": summary.shape,
        "tile_shape": summary.tile_shape,
        "num_moduli": summary.num_moduli,
        "workers": args.n_workers,
        "memory_limit_bytes": parse_bytes(args.memory_limit),
    }


def bench_lost(report: Report, args: Namespace) -> None:
    """Kill a worker after half of an undisturbed run's time; repeat the latter."""
    seconds: dict[str, float] = {}
    cores: dict[str, float] = {}
    with inputs(args, outputs=3):
        for name in ("before", "lost", "after"):
            with workers(args) as client:
                killers: tuple[Timer, ...] = ()
                if name == "lost":
                    victim = next(iter(client.run(os.getpid).values()))
                    half = seconds["before"] / 2
                    killers = (Timer(half, os.kill, (victim, signal.SIGKILL)),)
                with Sampler(client) as sampler:
                    output = f"{name}.npy"
                    _, summary = multiply(client, output, args.num_moduli, killers)
                # A kill after the job was done would prove nothing.
                assert all(killer.finished.is_set() for killer in killers)
            seconds[name], cores[name] = summary.seconds, sampler.other_cores
        same = filecmp.cmp("before.npy", "lost.npy", shallow=False)
    undisturbed = mean([seconds["before"], seconds["after"]])
    report.add(
        "lost-worker",
        **describe(args, summary),
        lost_over_undisturbed=seconds["lost"] / undisturbed,
        same_bits=same,
        other_cores=cores,
        total_seconds=seconds,
    )


def bench_soak(report: Report, args: Namespace) -> None:
    """Run products of mixed shapes, and see what they leave behind."""
    here = psutil.Process()
    with (
        tempfile.TemporaryDirectory(dir=args.folder) as folder,
        chdir(folder),
        start_workers(3, 2 * 2**30) as client,
    ):
        run_products(client, WARM)
        before, own = client.run(measure), here.memory_info().rss
        seconds = wall_seconds(partial(run_products, client, args.products))
        with suppress(AssertionError):  # reported below
            wait_until(lambda: not task_names(client) and not count_tiles(client))
        after, owned = client.run(measure), here.memory_info().rss
        placed = client.cluster.scheduler.plugins[plugin.PLUGIN_NAME].placed
        left = np.array([after[worker] for worker in before])
        grown = (left - [*before.values()]).T.tolist()
        report.add(
            "soak",
            products=args.products,
            workers=3,
            grown_process_bytes=grown[4],
            grown_client_bytes=owned - own,
            grown_files=grown[2],
            grown_threads=grown[3],
            tiles_left=int(left[:, 0].sum()),
            encoded_left=int(left[:, 1].sum()),
            tasks_left=len(task_names(client)),
            placed_left=len(placed),
            hidden_files_left=len(list(Path().glob(".*"))),
            total_seconds=seconds,
        )


def count_tiles(client: Any) -> int:
    """Count what workers hold and have not yet been told to forget."""
    return sum(tiles for tiles, *_ in client.run(measure).values())


if __name__ == "__main__":
    run(
        __doc__,
        bench_waves,
        bench_lost,
        bench_soak,
        size=22528,
        depth=2816,
        num_moduli=8,
        n_workers=4,
        memory_limit="600 MiB",
        products=200,
        folder=None,
    )
