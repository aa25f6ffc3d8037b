"""Multiply files larger than the workers' memory, m and n of ``--size``, k ``--depth``.

Time, memory of every worker, and bytes read are compared with those of the layout.

    python benchmarks/bench_out_of_core.py --size 22528 --depth 2816 --folder /big/disk
"""

import logging
import os
import shutil
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from dask.utils import parse_bytes

import twom_dist as td
from benchmarks.harness import Report, run
from benchmarks.sampler import Sampler
from twom_dist.jobs import begin, compute, open_job
from twom_dist.plan import Cluster, Layout
from twom_dist.plan.cluster import INTERPRETER_BYTES
from twom_dist.store import StoredMatrix
from twom_dist.workers.client import current_cluster

ITEM_BYTES = 16
STRIP = 512


def count_reads() -> None:
    """Make this process add up the bytes that it reads from matrices."""
    read = StoredMatrix.__getitem__

    def counting(self: Any, index: Any) -> Any:
        values = read(self, index)
        StoredMatrix.bytes_read += values.nbytes
        return values

    StoredMatrix.bytes_read = 0
    StoredMatrix.__getitem__ = counting


def get_reads() -> int:
    return int(StoredMatrix.bytes_read)


def plan_layout(layout: Layout, workers: int) -> tuple[int, int]:
    """Return the bytes that a layout reads, and the peak of the fullest worker."""
    read = peak = 0
    for wave in layout.waves:
        m, n, k = layout.grid_of(wave).shape
        read += ITEM_BYTES * k * (m + n)
        peak = max(peak, layout.plan(wave, Cluster(workers)).peak_worker_bytes)
    return read, peak


def write_random(path: str, rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    out = np.lib.format.open_memmap(path, "w+", "c16", (rows, columns))
    for start in range(0, rows, STRIP):
        stop = min(rows, start + STRIP)
        out[start:stop] = rng.standard_normal((stop - start, 2 * columns)).view("c16")


def write_inputs(n: int, k: int) -> None:
    """Write A and B if there is room for C as well."""
    needed = ITEM_BYTES * (2 * n * k + n * n)
    if (free := shutil.disk_usage(".").free) < 1.1 * needed:
        raise SystemExit(
            f"{os.getcwd()!r} has {free / 2**30:.0f} GiB free and {needed / 2**30:.0f} "
            "are needed; name another with --folder, or a smaller --size"
        )
    write_random("A.npy", n, k, 1)
    write_random("B.npy", k, n, 2)


@contextmanager
def workers(args: Namespace) -> Iterator[Any]:
    """Start workers of one thread on the cores, which have multiplied once."""
    with td.local_cluster(
        n_workers=args.n_workers,
        threads_per_worker=1,
        memory_limit=parse_bytes(args.memory_limit),
        gpus=False,
        security=False,
        silence_logs=logging.CRITICAL,
    ) as client:
        write_random("small.npy", 64, 64, 0)
        given = {"chunks": 16, "client": client, "overwrite": True}
        td.multiply_files("small.npy", "small.npy", "C.npy", **given)
        os.sync()  # so that earlier writes cost no measured time
        yield client


def bench_out_of_core(report: Report, args: Namespace) -> None:
    write_inputs(args.size, args.depth)
    with workers(args) as client:
        client.run(count_reads)
        asked = td.gemm.ask("A.npy", "B.npy", num_moduli=args.num_moduli)
        job = open_job(asked, "out.npy")
        with (
            Sampler(client) as sampler,
            begin(job, current_cluster(), client=client) as started,
        ):
            layout, summary = started.layout, compute(started, client)
        read = sum(client.run(get_reads).values())
        matrices = sum(os.path.getsize(f"{name}.npy") for name in ("A", "B", "out"))
    planned_read, planned_peak = plan_layout(layout, args.n_workers)
    memory = args.n_workers * parse_bytes(args.memory_limit)
    report.add(
        "out-of-core",
        shape=summary.shape,
        tile_shape=summary.tile_shape,
        num_moduli=summary.num_moduli,
        workers=args.n_workers,
        memory_limit_bytes=parse_bytes(args.memory_limit),
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


if __name__ == "__main__":
    given = {"size": 22528, "depth": 2816, "num_moduli": 8, "folder": None}
    run(__doc__, bench_out_of_core, n_workers=4, memory_limit="600 MiB", **given)
