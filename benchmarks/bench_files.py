"""Measure products from file to file, against those in memory and against dask's.

Parts: ``jobs``, in one process, interleaved: the product of arrays, and jobs on two
matrices of each format, with their files in the memory of the operating system ("warm")
and, for root on Linux, on the disk alone ("cold"). ``tall``: ``A^H A`` of a zarr store
larger than the worker, by `rank_k_files` and by lazy products, whose tasks read the
file, against `dask.array`'s: time and memory.

    python benchmarks/bench_files.py --size 4096 --rows 240000 --folder /a/disk
"""

import os
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from dask.utils import parse_bytes

import twom_dist as td
from benchmarks.harness import (
    Report,
    interleave,
    medians,
    ratios,
    run,
    start_client,
    wall_seconds,
)
from benchmarks.sampler import Sampler

CACHES = Path("/proc/sys/vm/drop_caches")
# Side of the chunks of zarr stores that zarr compresses, and rows of those of others.
CHUNK, ROWS = 512, 2000


def draw(rows: int, columns: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 2 * columns)).view(complex)


def time_job(format: str, cold: bool) -> float:
    """Time a job, with or without the files in memory."""
    os.sync()
    if cold:
        CACHES.write_text("3")
    else:
        for path in (Path(f"{name}.{format}") for name in "AB"):
            for file in path.rglob("*") if path.is_dir() else [path]:
                if file.is_file():
                    file.read_bytes()
    given = f"A.{format}", f"B.{format}", "C.zarr"
    return wall_seconds(partial(td.multiply_files, *given, overwrite=True))


def bench_jobs(report: Report, args: Namespace) -> None:
    n = args.size
    a, b = (draw(n, n, seed) for seed in range(2))
    for name, x in (("A", a), ("B", b)):
        np.save(f"{name}.npy", x)
        zarr.create_array(f"{name}.zarr", data=x, chunks=(CHUNK, CHUNK))
    able = os.access(CACHES, os.W_OK)
    ways = [(x, cold) for x in ("npy", "zarr") for cold in (False, True)[: 1 + able]]
    names = {way: f"{way[0]} {'cold' if way[1] else 'warm'}" for way in ways}
    seconds: dict[str, list[float]] = {x: [] for x in ("memory", *names.values())}
    td.zgemm(a[:CHUNK], b)
    for turn in range(args.repeats):
        seconds["memory"].append(wall_seconds(partial(td.zgemm, a, b)))
        # The first job after a product in memory takes some 5 % more.
        first = turn % len(ways)
        for way in ways[first:] + ways[:first]:
            seconds[names[way]].append(time_job(*way))
    taken = ratios(seconds, "memory")
    memory = seconds.pop("memory")
    report.add(
        "file-to-file",
        shape=(n, n, n),
        memory_seconds=memory,
        seconds=seconds,
        over_memory={way: 1 / taken[way] for way in seconds},
    )


def bench_tall(report: Report, args: Namespace) -> None:
    """Multiply a file on a worker of two threads that cannot hold it."""
    shape, limit = (args.rows, args.columns), parse_bytes(args.memory_limit)
    given = {"chunks": (ROWS, args.columns), "dtype": "c16", "compressors": None}
    stored = zarr.create_array("A.zarr", shape=shape, **given)
    for start in range(0, args.rows, ROWS):
        rows = min(ROWS, args.rows - start)
        stored[start : start + rows] = draw(rows, args.columns, start)
    update = partial(td.rank_k_files, td.herk, "A.zarr", "H.npy", op="C")

    def square(_: Any) -> Any:
        a = da.from_zarr("A.zarr")
        return (a.conj().T @ a).compute()

    candidates: dict[str, Callable[[Any], Any]] = {
        "dask": square,
        "rank_k_files": lambda client: update(client=client, overwrite=True),
        "herk": lambda _: td.herk(da.from_zarr("A.zarr"), op="C").compute(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    peaks: dict[str, list[int]] = {name: [] for name in candidates}
    for _ in range(args.repeats):
        for name, call in candidates.items():
            # A process of its own: memory that the last one took is not given back.
            with start_client(1, 2, memory_limit=limit) as client:
                client.run(lambda: td.gemm(np.eye(2, dtype="c16"), np.eye(2)) is None)
                with Sampler(client) as sampler:
                    seconds[name] += interleave({name: partial(call, client)}, 1)[name]
                peaks[name].append(max(sampler.process_bytes.values()))
    report.add(
        "tall-file",
        shape=shape,
        file_bytes=args.rows * args.columns * 16,
        memory_limit=limit,
        peak_process_bytes={name: max(found) for name, found in peaks.items()},
        median_seconds=medians(seconds),
        seconds=seconds,
    )


if __name__ == "__main__":
    options = {"rows": 60_000, "columns": 640, "memory_limit": "2 GiB", "folder": None}
    run(__doc__, bench_jobs, bench_tall, size=4096, repeats=3, **options)
