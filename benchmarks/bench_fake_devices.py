"""Time the dask path on GPUs that only keep a clock: what a schedule leaves idle.

See `clocked`. Each worker is a process with a device. For each routine and number of
workers it prints the look (until the first product), the busy and idle shares between
the first product and the last, the bytes received, the time that a device waited while
they came ("exposed"), and the rate of a device beside that of one product in memory.
Devices and links are slowed by ``--dilation``, so that Python has the time that it
would have on a core for each worker: what changes with it is due to this machine.
Predictions, not measurements of a GPU. ``--num-moduli 0`` is the default, ``--link``
bytes a second.

    python benchmarks/bench_fake_devices.py --workers 1,2,4,8 --link 450e9
"""

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean
from typing import Any

from distributed import Client, wait

import twom_dist as td
from benchmarks import clocked
from benchmarks.clock import SCALE
from benchmarks.harness import Report, draw_lazily, run, start_client

# A side for each number of workers: what fits on so many H100s.
SIDES = {1: 24_576, 2: 32_768, 4: 49_152, 8: 65_536, 64: 131_072}
# TF/s of one product in memory on an H100, n = 8192 (gpu.jsonl).
IN_MEMORY = {"gemm": 146.3, "herk": 130.9}


@contextmanager
def start(args: Namespace, workers: int) -> Iterator[Client]:
    """Start processes with a device each; many of them share this process."""
    apart = workers <= 8
    with (
        start_client(workers, args.threads, processes=apart, memory_limit=0) as client,
        clocked.clocked_devices(args.dilation, args.link),
    ):
        if apart:
            client.run(clocked.install, args.dilation, args.link)
        yield client


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
        "look_seconds": (first - begin) / dilation,
        "busy_seconds": sum(found["seconds"].values()),
        "idle_share": 1 - busy / (last - first),
        "exposed_seconds": exposed(found["transfers"], found["log"]) / dilation,
    }


def exposed(transfers: Sequence[Any], launches: Sequence[Any]) -> float:
    """Add up the time of transfers during which a device had nothing to do.

    Both are in order, and none overlaps others of its kind.
    """
    hidden = sum(
        max(0.0, min(end, done) - max(start, begun))
        for start, end in transfers
        for begun, done, _ in launches
    )
    return sum(end - start for start, end in transfers) - hidden


def bench_fake_devices(report: Report, args: Namespace) -> None:
    for name in args.routines:
        for workers in args.workers:
            multiply(report, args, name, workers)


def multiply(report: Report, args: Namespace, name: str, workers: int) -> None:
    n, routine = SIDES[workers], getattr(td, name)
    options = {} if args.num_moduli == 0 else {"num_moduli": args.num_moduli}
    with start(args, workers) as client:
        count = 1 if name == "herk" else 2
        side, tile = n // SCALE, args.tile // SCALE
        drawn = [draw_lazily((side, side), tile, seed) for seed in range(count)]
        given = client.persist(drawn)
        wait(given)
        plan = td.plan(routine, *given, **options)
        everywhere(client, clocked.reset)
        begin = time.perf_counter()
        result = client.persist(routine(*given, **options))
        wait(result)
        seconds = (time.perf_counter() - begin) / args.dilation
        found = [x for x in everywhere(client, clocked.report) if x["log"]]
        each = [describe(x, begin, args.dilation) for x in found]
    rate = (4 if name == "herk" else 8) * n**3 / seconds / workers / 1e12
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
        sweep=plan.spec.sweep,
        seconds=seconds,
        **{key: mean(x[key] for x in each) for key in each[0]},
        encoded=max(x["encoded"] for x in found),
        made_bytes=max(x["peak_bytes"] for x in found),
        received_bytes=max(x["counts"].get("received", 0) for x in found),
        tflops_a_device=rate,
        over_in_memory=rate / IN_MEMORY[name],
    )


if __name__ == "__main__":
    run(
        __doc__,
        bench_fake_devices,
        routines=["gemm", "herk"],
        workers=[1, 2],
        tile=8192,
        threads=2,
        num_moduli=0,
        link=450e9,
        dilation=10.0,
    )
