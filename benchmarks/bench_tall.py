"""Measure products of tall matrices: from a file in little memory, and by workers.

Sections: ``file`` (``A^H A`` of a zarr file larger than the worker: `update_files` and
lazy products, whose tasks read the file, against `dask.array`'s, time and memory),
``workers`` (the same in memory, of which workers share k, against all of it on one
worker), ``memory`` (3000 x 1500 times 1500 x 3000 in tiles of 500 on two workers:
memory beside ``@``), ``leaving`` (the sum of a product that the workers cannot hold).

    python benchmarks/bench_tall.py --rows 240000 --columns 640 --folder /big/disk
"""

import argparse
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import chdir
from statistics import median
from typing import Any

import dask.array as da
import numpy as np
import zarr
from bench_out_of_core import Sampler
from dask.utils import parse_bytes
from distributed import Client, LocalCluster, wait
from harness import Report, interleave, ratios, start_client

import twom_dist as td
from twom_dist.errors import MemoryWarning
from twom_dist.plan import planner

# Rows of a chunk.
CHUNK = 2000


def draw(rows: int, columns: int, seed: int) -> Any:
    """Draw a block of normal numbers."""
    parts = np.random.default_rng(seed).standard_normal((2, rows, columns))
    return parts[0] + 1j * parts[1]


def write(path: str, rows: int, columns: int) -> None:
    """Write a matrix block by block, uncompressed."""
    options = {"chunks": (CHUNK, columns), "dtype": "c16", "compressors": None}
    stored = zarr.create_array(path, shape=(rows, columns), **options)
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        stored[start:stop] = draw(stop - start, columns, start)


def bench_file(report: Report, args: argparse.Namespace) -> None:
    """Multiply a file on a worker of two threads that cannot hold it."""
    write("A.zarr", args.rows, args.columns)
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    candidates: dict[str, Callable[[Any], Any]] = {
        "dask": lambda client: _square(da.from_zarr("A.zarr")).compute(),
        "update_files": lambda client: td.update_files(
            td.herk, "A.zarr", "H.npy", op="C", client=client, overwrite=True
        ),
        "herk": lambda client: td.herk(da.from_zarr("A.zarr"), op="C").compute(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    peaks: dict[str, list[int]] = {name: [] for name in candidates}
    for _ in range(args.repeats):
        for name, call in candidates.items():
            # A process of its own: memory that the last one took is not given back.
            with (
                LocalCluster(memory_limit=args.memory_limit, **options) as cluster,
                Client(cluster) as client,
            ):
                client.run(lambda: td.gemm(np.eye(2, dtype="c16"), np.eye(2)) is None)
                timed = {name: lambda c=client, f=call: f(c)}
                with Sampler(client) as sampler:
                    seconds[name] += interleave(timed, 1)[name]
                peaks[name].append(max(sampler.process_bytes.values()))
    report.add(
        "tall-file",
        shape=(args.rows, args.columns),
        file_bytes=args.rows * args.columns * 16,
        memory_limit=args.memory_limit,
        peak_process_bytes={name: max(found) for name, found in peaks.items()},
        median_seconds={name: median(found) for name, found in seconds.items()},
        seconds=seconds,
    )


def _square(a: Any) -> Any:
    return a.conj().T @ a


def bench_workers(report: Report, args: argparse.Namespace) -> None:
    """Multiply on two workers that share k, and on one of them."""
    rows = args.rows // 4
    blocks = range(0, rows, CHUNK)
    with start_client(2) as client:
        shape = CHUNK, args.columns
        drawn = [client.submit(draw, *shape, x) for x in blocks]
        parts = [da.from_delayed(x, shape, "c16") for x in drawn]
        a = client.persist(da.concatenate(parts))
        wait(a)
        choose = planner.choose_splits

        def alone() -> None:
            planner.choose_splits = lambda *given, **named: [
                x for x in choose(*given, **named) if x.layers == 1
            ]
            try:
                wait(client.persist(td.herk(a, op="C")))
            finally:
                planner.choose_splits = choose

        candidates = {
            "shared": lambda: wait(client.persist(td.herk(a, op="C"))),
            "one worker": alone,
            "dask": lambda: wait(client.persist(_square(a))),
        }
        seconds = interleave(candidates, args.repeats)
    report.add(
        "tall-workers",
        shape=(len(blocks) * CHUNK, args.columns),
        over_one_worker=ratios(seconds, "one worker"),
        over_dask=ratios(seconds, "dask"),
        seconds=seconds,
    )


class Total(Sampler):
    """Watch what the processes of all workers take together."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.peak = 0

    def run(self) -> None:
        """Sample until the end."""
        while not self._ended.wait(0.005):
            self.peak = max(self.peak, self.taken())

    def taken(self) -> int:
        """Add up what is taken now."""
        return sum(x.memory_info().rss for x in self._processes.values())


def bench_memory(report: Report, args: argparse.Namespace) -> None:
    """Take the memory of a small product on two workers, inputs included."""
    m, k, n = 3000, 1500, 3000
    candidates = {"dask": lambda a, b: a @ b, "gemm": td.gemm}
    peaks: dict[str, list[int]] = {name: [] for name in candidates}
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(args.repeats):
        for name, call in candidates.items():
            with start_client(2) as client:
                # Whatever is loaded and compiled is there beforehand.
                x = da.ones((64, 64), chunks=32, dtype=complex)
                call(x, x).compute()
                sampler = Total(client)
                before = sampler.taken()
                shapes = (m, k), (k, n)
                blocks = [
                    da.random.default_rng(1).random(x, chunks=500) for x in shapes
                ]
                a, b = client.persist([x + 1j for x in blocks])
                wait([a, b])
                with sampler:
                    timed = {name: lambda f=call, a=a, b=b: _finish(client, f(a, b))}
                    seconds[name] += interleave(timed, 3)[name]
                peaks[name].append(sampler.peak - before)
    report.add(
        "memory",
        shape=(m, n, k),
        tile=500,
        workers=2,
        peak_bytes={name: median(found) for name, found in peaks.items()},
        peaks=peaks,
        over_dask=median(seconds["dask"]) / median(seconds["gemm"]),
        seconds=seconds,
    )


def _finish(client: Client, product: Any) -> None:
    wait(client.persist(product))


def bench_leaving(report: Report, args: argparse.Namespace) -> None:
    """Sum a result that the worker could not hold, tile by tile."""
    m, k, tile, limit = 12_000, 500, 1000, parse_bytes("1.5 GiB")
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    candidates = {"dask": lambda a, b: a @ b, "gemm": td.gemm}
    peaks, spilled, seconds = {}, {}, {}
    for name, call in candidates.items():
        with (
            LocalCluster(memory_limit=limit, **options) as cluster,
            Client(cluster) as client,
        ):
            a = da.random.default_rng(1).random((m, k), chunks=(tile, k)) + 1j
            with warnings.catch_warnings(), Sampler(client) as sampler:
                warnings.simplefilter("ignore", MemoryWarning)
                timed = {name: lambda f=call, a=a: f(a, a.T).sum().compute()}
                seconds[name] = interleave(timed, args.repeats)[name]
            peaks[name] = max(sampler.process_bytes.values())
            spilled[name] = sampler.spilled_bytes
            if name == "gemm":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", MemoryWarning)
                    plan = td.plan(td.gemm, a, a.T)
    report.add(
        "leaving",
        shape=(m, m, k),
        result_bytes=m * m * 16,
        memory_limit=limit,
        planned_bytes=(plan.least_worker_bytes, plan.peak_worker_bytes),
        peak_process_bytes=peaks,
        spilled_bytes=spilled,
        median_seconds={name: median(found) for name, found in seconds.items()},
    )


SECTIONS = {
    "file": bench_file,
    "workers": bench_workers,
    "memory": bench_memory,
    "leaving": bench_leaving,
}


def main() -> None:
    """Run the requested sections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--columns", type=int, default=640)
    parser.add_argument("--memory-limit", type=parse_bytes, default="2 GiB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", help="of the matrix (default: a temporary one)")
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output and os.path.abspath(args.output))
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, chdir(folder):
        for section in args.sections.split(","):
            SECTIONS[section](report, args)


if __name__ == "__main__":
    main()
