"""Time the dask path on GPUs that only keep a clock: what a schedule leaves idle.

See `clocked`. Each worker is a device, and ``--node`` of them share a node. For each
routine and number of workers it prints the look (until the first product), the busy and
idle shares between the first product and the last, the bytes received, those that
entered all nodes, beside what the plan says, the time that a device waited while blocks
came ("exposed"), and the share of the rate of int8 products, beside that of `model`.
Devices and links are slowed by ``--dilation``, so that Python has the time that it
would have on a core for each worker: what changes with it is due to this machine.
Predictions, not measurements of a GPU. ``--num-moduli 0`` is the default; ``--link``
into a device, and ``--network`` into a node, are bytes a second.

    python benchmarks/bench_fake_devices.py --workers 8,16,32 --network 2e10,5e10
"""

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from statistics import mean
from typing import Any

from distributed import Client, Scheduler, SpecCluster, Worker, wait

import twom_dist as td
from benchmarks import clocked
from benchmarks.clock import AREA, SCALE
from benchmarks.harness import Report, draw_lazily, run
from benchmarks.model import MACHINES, make_plan, predict

# Options that results repeat.
SAID = "tile", "threads", "node", "link", "dilation"
# A side for each number of workers: what fits on so many H100s.
SIDES = {1: 24_576, 2: 32_768, 4: 49_152, 8: 65_536, 16: 65_536, 32: 65_536}


@contextmanager
def start(args: Namespace, workers: int, network: float) -> Iterator[Client]:
    """Start workers with a device each, in this process."""
    host, own = "127.0.0.", {"nthreads": args.threads, "memory_limit": 0}
    hosts = [{"host": f"{host}{1 + i // args.node}"} for i in range(workers)]
    given = {i: {"cls": Worker, "options": own | x} for i, x in enumerate(hosts)}
    options = {"dashboard_address": f"{host}1:0", "host": f"{host}1"}
    scheduler = {"cls": Scheduler, "options": options}
    with (
        clocked.clocked_devices(args.dilation, args.link, network),
        SpecCluster(given, scheduler, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        yield client


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
    """Add up the time of transfers during which a device had nothing to do."""
    last = total = 0.0
    for start, end in sorted(transfers):
        start, last = max(start, last), max(end, last)
        hidden = (min(end, done) - max(start, begun) for begun, done, _ in launches)
        total += max(0.0, end - start - sum(max(0.0, x) for x in hidden))
    return total


def bench_fake_devices(report: Report, args: Namespace) -> None:
    for given in product(args.routines, args.workers, args.network):
        multiply(report, args, *given)


def multiply(
    report: Report, args: Namespace, name: str, workers: int, network: float
) -> None:
    n, routine = SIDES[workers], getattr(td, name)
    options = {"num_moduli": args.num_moduli} if args.num_moduli else {}
    machine = replace(MACHINES["h200"], memory_limit="71 GiB")
    model = make_plan(name, n, args.tile, workers, machine, args.node)
    ideal = predict(model, machine, args.link, network)
    with start(args, workers, network) as client:
        count = 1 if name == "herk" else 2
        side, tile = n // SCALE, args.tile // SCALE
        # Drawn where they are needed, in next to no time on the devices' clocks.
        given = [draw_lazily((side, side), tile, seed) for seed in range(count)]
        plan = td.plan(routine, *given, **options)
        clocked.reset()
        begin = time.perf_counter()
        result = client.persist(routine(*given, **options))
        wait(result)
        seconds = (time.perf_counter() - begin) / args.dilation
        found = [x for x in map(clocked.report, range(workers)) if x["log"]]
        each = [describe(x, begin, args.dilation) for x in found]
    report.add(
        "fake-devices",
        routine=name,
        n=n,
        workers=workers,
        network=network,
        num_moduli=args.num_moduli or "default",
        **{x: getattr(args, x) for x in SAID},
        tasks=plan.num_tasks,
        sweep=plan.spec.sweep,
        seconds=seconds,
        **{key: mean(x[key] for x in each) for key in each[0]},
        made_bytes=max(x["peak_bytes"] for x in found),
        received_bytes=max(x["counts"].get("received", 0) for x in found),
        entered_bytes=sum(x["counts"].get("entered", 0) for x in found),
        led=sum(x["counts"].get("led", 0) for x in found),
        planned_bytes=plan.bytes_between_hosts * AREA,
        efficiency=mean(x["seconds"]["products"] for x in found) / seconds,
        predicted=ideal.ideal / workers / ideal.seconds,
    )


if __name__ == "__main__":
    product_options = {"routines": ["gemm", "herk"], "tile": 8192, "num_moduli": 0}
    cluster = {"workers": [1, 2], "threads": 2, "node": 8, "dilation": 10.0}
    links = {"link": 450e9, "network": [5e10]}
    run(__doc__, bench_fake_devices, **product_options, **cluster, **links)
