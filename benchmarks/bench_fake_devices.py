"""Time the dask path on GPUs that only keep a clock: what a schedule leaves idle.

See `clocked`. Each worker is a process with a device. For each routine and number of
workers it prints the look (until the first product), the busy and idle shares between
the first product and the last, the bytes received, the time that a device waited while
they came ("exposed"), and the rate of a device beside that of one product in memory.
Devices and links are slowed by ``--dilation``, so that Python
has the time that it would have on a core for each worker: what changes with it is due
to this machine. Predictions, not measurements of a GPU.

    python benchmarks/bench_fake_devices.py --workers 1,2,4,8 --link 450e9
"""

import argparse
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, get_worker, wait
from harness import Report

import twom_dist as td
from benchmarks import clocked
from benchmarks.clock import SCALE

# A side for each number of workers: what fits on so many H100s.
SIDES = {1: 24_576, 2: 32_768, 4: 49_152, 8: 65_536, 64: 131_072}
# TF/s of one product in memory on an H100, n = 8192 (gpu.jsonl).
IN_MEMORY = {"gemm": 146.3, "herk": 130.9}


@contextmanager
def start(workers: int, threads: int, dilation: float, link: float) -> Iterator[Client]:
    """Start processes with a device each; many of them share this process."""
    apart = workers <= 8
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=apart,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
        clocked.clocked_devices(dilation, link),
    ):
        if apart:
            client.run(clocked.install, dilation, link)
        yield client


def draw(side: int, seed: int, block_info: Any = None) -> Any:
    """Draw a block."""
    place = block_info[None]["chunk-location"]
    parts = np.random.default_rng([seed, *place]).standard_normal((2, side, side))
    return parts[0] + 1j * parts[1]


def persisted(client: Client, n: int, tile: int, seed: int) -> Any:
    """Make a matrix whose tiles lie on the workers."""
    side, count = tile // SCALE, n // tile
    x = da.map_blocks(draw, side, seed, chunks=((side,) * count,) * 2, dtype=complex)
    x = client.persist(x)
    wait(x)
    return x


def read_clock() -> dict[str, Any]:
    """Report the device of the worker that runs this, and begin anew."""
    return clocked.report(get_worker().name)


def everywhere(client: Client, call: Any) -> list[Any]:
    """Run a function as a task of every worker."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    asked = [client.submit(call, workers=[x], pure=False) for x in workers]
    return [*client.gather(asked)]


def describe(found: dict[str, Any], begin: float, dilation: float) -> dict[str, float]:
    """Say how long a device looked, worked and stood still."""
    products = [x for x in found["log"] if x[2] == "products"]
    first, last = products[0][0], found["log"][-1][1]
    busy = sum(end - start for start, end, _ in found["log"] if start >= first)
    return {
        "look": (first - begin) / dilation,
        "busy": sum(found["seconds"].values()),
        "idle_share": 1 - busy / (last - first),
        "exposed": exposed(found["transfers"], found["log"]) / dilation,
    }


def exposed(transfers: Sequence[Any], launches: Sequence[Any]) -> float:
    """Add up the time of transfers during which a device had nothing to do.

    Both are in order, and none overlaps others of its kind.

    Examples
    --------
    >>> exposed([(0, 4), (5, 6)], [(1, 2, "encode"), (5, 7, "products")])
    3.0
    """
    hidden = sum(
        max(0.0, min(end, done) - max(start, begun))
        for start, end in transfers
        for begun, done, _ in launches
    )
    return sum(end - start for start, end in transfers) - hidden


def bench(report: Report, args: argparse.Namespace, name: str, workers: int) -> None:
    """Multiply once on so many devices."""
    n, routine = SIDES[workers], getattr(td, name)
    options = {} if args.num_moduli == 0 else {"num_moduli": args.num_moduli}
    with start(workers, args.threads, args.dilation, args.link) as client:
        count = 1 if name == "herk" else 2
        given = [persisted(client, n, args.tile, seed) for seed in range(count)]
        plan = td.plan(routine, *given, **options)
        everywhere(client, clocked.reset)
        begin = time.perf_counter()
        result = client.persist(routine(*given, **options))
        wait(result)
        seconds = (time.perf_counter() - begin) / args.dilation
        found = [x for x in everywhere(client, read_clock) if x["log"]]
        each = [describe(x, begin, args.dilation) for x in found]
    share = 4 if name == "herk" else 8
    rate = share * n**3 / seconds / workers / 1e12
    report.add(
        "fake-devices",
        routine=name,
        n=n,
        tile=args.tile,
        workers=workers,
        threads=args.threads,
        link=args.link,
        num_moduli=args.num_moduli or "default",
        dilation=args.dilation,
        tasks=plan.num_tasks,
        turn=plan.spec.turn,
        seconds=seconds,
        look_seconds=mean(x["look"] for x in each),
        busy_seconds=mean(x["busy"] for x in each),
        idle_share=mean(x["idle_share"] for x in each),
        exposed_seconds=mean(x["exposed"] for x in each),
        encoded=max(x["encoded"] for x in found),
        made_bytes=max(x["peak_bytes"] for x in found),
        received_bytes=max(x["counts"].get("received", 0) for x in found),
        tflops_a_device=rate,
        over_in_memory=rate / IN_MEMORY[name],
    )


def main() -> None:
    """Run the requested routines on the requested numbers of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routines", default="gemm,herk")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--tile", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--num-moduli", type=int, default=0)
    parser.add_argument("--link", type=float, default=450e9, help="bytes per second")
    parser.add_argument("--dilation", type=float, default=10.0)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    for name in args.routines.split(","):
        for workers in args.workers.split(","):
            bench(report, args, name, int(workers))


if __name__ == "__main__":
    main()
