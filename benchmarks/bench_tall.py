"""Measure products of tall matrices: from a file in little memory, and by workers.

Sections: ``file`` (``A^H A`` of a zarr file larger than the worker: `update_files`
against `dask.array`'s product, time and memory), ``workers`` (the same in memory, of
which workers share k, against all of it on one worker).

    python benchmarks/bench_tall.py --rows 240000 --columns 640 --folder /big/disk
"""

import argparse
import os
import tempfile
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
            planner.choose_splits = lambda *given: [
                x for x in choose(*given) if x.layers == 1
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


SECTIONS = {"file": bench_file, "workers": bench_workers}


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
