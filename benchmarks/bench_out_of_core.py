"""Measure jobs on files larger than the workers' memory, and what may go wrong.

Sections: ``waves`` (a product of matrices of several times the workers' memory: time,
memory of every worker, bytes read against those of the layout), ``lost`` (the same
undisturbed, with a worker killed after half of that time, and undisturbed again),
``soak`` (many small jobs on one cluster, and what they leave behind).

    python benchmarks/bench_out_of_core.py --size 22528 --depth 2816 --folder /big/disk
"""

import argparse
import logging
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from statistics import mean
from threading import Event, Thread, Timer
from typing import Any

import numpy as np
import psutil
from dask.utils import parse_bytes
from harness import Report

import twom_dist as td
from tests.nightly.soak.test_soak import measure, run_products
from tests.support.jobs import task_names, wait_until
from twom_dist.jobs import JobSummary, begin, compute, open_job
from twom_dist.plan import Cluster, Layout
from twom_dist.plan.memory import INTERPRETER_BYTES
from twom_dist.run.client import current_cluster
from twom_dist.tiles.placement import plugin

ITEM_BYTES = 16
STRIP = 512
# Number of products before the first look: they load modules, kernels and buffers.
WARM = 18


class Sampler(Thread):
    """Watch the processes of the first workers, and the scheduler's state."""

    def __init__(self, client: Any) -> None:
        super().__init__(daemon=True)
        found = client.run(os.getpid)
        self._processes = {name: psutil.Process(pid) for name, pid in found.items()}
        self._workers = client.cluster.scheduler.workers
        self._ended = Event()
        self.process_bytes, self.managed_bytes = Counter(), Counter()
        self.spilled_bytes = 0
        self.paused = False

    def run(self) -> None:
        while not self._ended.wait(0.02):
            for name, process in self._processes.items():
                with suppress(psutil.NoSuchProcess):
                    _raise(self.process_bytes, name, process.memory_info().rss)
            for name, state in list(self._workers.items()):
                _raise(self.managed_bytes, name, state.nbytes)
                self.paused |= state.status.name == "paused"
                spilled = state.memory.spilled
                self.spilled_bytes = max(self.spilled_bytes, spilled)

    def __enter__(self) -> "Sampler":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def _raise(peaks: Counter[str], name: str, value: int) -> None:
    peaks[name] = max(peaks[name], value)


@contextmanager
def others(client: Any) -> Iterator[dict[str, float]]:
    """Measure how many cores others kept busy, workers started meanwhile included."""
    pids = [os.getpid(), *client.run(os.getpid).values()]
    own = {psutil.Process(pid): 0.0 for pid in pids}

    def busy() -> float:
        times = psutil.cpu_times()
        for process in own:
            # A process that has died keeps its last count.
            with suppress(psutil.NoSuchProcess):
                own[process] = sum(process.cpu_times()[:2])
        everyone = sum(times) - times.idle - times.iowait - times.guest
        return float(everyone - sum(own.values()))

    found: dict[str, float] = {}
    before, start = busy(), os.times().elapsed
    yield found
    found["cores"] = (busy() - before) / (os.times().elapsed - start)


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
def inputs(args: argparse.Namespace, outputs: int) -> Iterator[None]:
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
def workers(args: argparse.Namespace) -> Iterator[Any]:
    """Start workers that have multiplied once."""
    with start_workers(args.n_workers, args.memory_limit) as client:
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


def bench_waves(report: Report, args: argparse.Namespace) -> None:
    """Multiply in waves, and compare with the layout."""
    with inputs(args, outputs=1), workers(args) as client:
        client.run(count_reads)
        with others(client) as other, Sampler(client) as sampler:
            layout, summary = multiply(client, "C.npy", args.num_moduli)
        read = sum(client.run(get_reads).values())
        matrices = sum(os.path.getsize(f"{name}.npy") for name in "ABC")
    planned_read, planned_peak = plan_layout(layout, args.n_workers)
    report.add(
        "out-of-core",
        **describe(args, summary),
        matrices_over_memory=matrices / (args.n_workers * args.memory_limit),
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
        other_cores=other["cores"],
    )


def describe(args: argparse.Namespace, summary: JobSummary) -> dict[str, Any]:
    return {
        "shape": summary.shape,
        "tile_shape": summary.tile_shape,
        "num_moduli": summary.num_moduli,
        "workers": args.n_workers,
        "memory_limit_bytes": args.memory_limit,
    }


def bench_lost(report: Report, args: argparse.Namespace) -> None:
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
                with others(client) as other:
                    output = f"{name}.npy"
                    _, summary = multiply(client, output, args.num_moduli, killers)
                # A kill after the job was done would prove nothing.
                assert all(killer.finished.is_set() for killer in killers)
            seconds[name], cores[name] = summary.seconds, other["cores"]
        same = same_bytes("before.npy", "lost.npy")
    undisturbed = mean([seconds["before"], seconds["after"]])
    report.add(
        "lost-worker",
        **describe(args, summary),
        lost_over_undisturbed=seconds["lost"] / undisturbed,
        same_bits=same,
        other_cores=cores,
        total_seconds=seconds,
    )


def same_bytes(*paths: str) -> bool:
    """Compare two files."""
    with open(paths[0], "rb") as first, open(paths[1], "rb") as second:
        while True:
            piece = first.read(2**24)
            if piece != second.read(2**24):
                return False
            if not piece:
                return True


def bench_soak(report: Report, args: argparse.Namespace) -> None:
    """Run products of mixed shapes, and see what they leave behind."""
    here = psutil.Process()
    with (
        tempfile.TemporaryDirectory(dir=args.folder) as folder,
        chdir(folder),
        start_workers(3, 2 * 2**30) as client,
    ):
        run_products(client, WARM)
        before, own = client.run(measure), here.memory_info().rss
        start = os.times().elapsed
        run_products(client, args.products)
        seconds = os.times().elapsed - start
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


SECTIONS = {"waves": bench_waves, "lost": bench_lost, "soak": bench_soak}


def main() -> None:
    """Run the requested sections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--size", type=int, default=22528, help="m and n")
    parser.add_argument("--depth", type=int, default=2816, help="k")
    parser.add_argument("--num-moduli", type=int, default=8)
    parser.add_argument("--n-workers", type=int, default=4)
    parser.add_argument("--memory-limit", type=parse_bytes, default="600 MiB")
    parser.add_argument("--products", type=int, default=200, help="of the soak")
    parser.add_argument("--folder", help="of the matrices (default: of temporary ones)")
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output and os.path.abspath(args.output))
    for section in args.sections.split(","):
        SECTIONS[section](report, args)


if __name__ == "__main__":
    main()
