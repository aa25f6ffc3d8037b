"""Measure how much longer a product takes from file to file than in memory.

In one process, interleaved: the product of arrays, and jobs on two matrices of each
format, with their files in the memory of the operating system ("warm") and, for root
on Linux, on the disk alone ("cold"). Jobs write a zarr store, and start no workers.

    python benchmarks/bench_files.py --size 4096 --folder /a/disk
"""

import argparse
import os
import tempfile
import time
from contextlib import chdir
from pathlib import Path
from statistics import median

import numpy as np
import zarr
from harness import Report

import twom_dist as td

CACHES = Path("/proc/sys/vm/drop_caches")
# Side of the chunks of zarr stores, which zarr compresses.
CHUNK = 512


def write(name: str, seed: int, rows: int, columns: int) -> np.ndarray:
    """Write a matrix of normal numbers in each format."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 2 * columns)).view(complex)
    np.save(f"{name}.npy", x)
    zarr.create_array(f"{name}.zarr", data=x, chunks=(CHUNK, CHUNK))
    return x


def time_job(format: str, *, cold: bool) -> float:
    """Time a job, with or without the files in memory."""
    os.sync()
    if cold:
        CACHES.write_text("3")
    else:
        for name in "AB":
            read(Path(f"{name}.{format}"))
    start = time.perf_counter()
    td.multiply_files(f"A.{format}", f"B.{format}", "C.zarr", overwrite=True)
    return time.perf_counter() - start


def read(path: Path) -> None:
    """Read all files of a matrix."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            file.read_bytes()


def bench(report: Report, args: argparse.Namespace) -> None:
    """Multiply two square matrices in each way, round by round."""
    n = args.size
    a, b = (write(name, seed, n, n) for seed, name in enumerate("AB"))
    able = os.access(CACHES, os.W_OK)
    ways = {
        f"{format} {'cold' if cold else 'warm'}": (format, cold)
        for format in ("npy", "zarr")
        for cold in (False, True)[: 1 + able]
    }
    td.zgemm(a[:CHUNK], b)
    memory: list[float] = []
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(args.repeats):
        start = time.perf_counter()
        td.zgemm(a, b)
        memory.append(time.perf_counter() - start)
        # The first job after a product in memory takes some 5 % more.
        first = turn % len(ways)
        for way in [*ways][first:] + [*ways][:first]:
            format, cold = ways[way]
            seconds[way].append(time_job(format, cold=cold))
    report.add(
        "file-to-file",
        shape=(n, n, n),
        memory_seconds=memory,
        seconds=seconds,
        over_memory={
            way: median(t / m for t, m in zip(times, memory, strict=True))
            for way, times in seconds.items()
        },
    )


def main() -> None:
    """Measure in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--folder", help="of the matrices (default: of temporary ones)")
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output and os.path.abspath(args.output))
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, chdir(folder):
        bench(report, args)


if __name__ == "__main__":
    main()
