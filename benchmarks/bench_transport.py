"""Measure what it takes to move blocks from one worker of this machine to another.

Connections by TCP and by TLS, each with dask's own serialisers and with ours
(`twom-dist.transport`). A task on one worker reads blocks that lie on the other, so
that a block has arrived when all of it has been read. Rates are those of 64 MiB, in as
many blocks as that takes; seconds of CPU are those of both workers.

    python benchmarks/bench_transport.py --sizes 1,4,16,64 --repeats 9
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster
from harness import Report

from twom_dist.run.client import ensure_plugins

TOTAL = 64 * 2**20
WAYS = {
    "tcp": (False, "dask"),
    "tls": (True, "dask"),
    "tcp, ours": (False, "auto"),
    "tls, ours": (True, "auto"),
}


def make(nbytes: int, _: int) -> Any:
    """Make a block on a worker, and write all of it."""
    return np.full(nbytes // 16, 1 + 2j)


def read(blocks: list[Any]) -> float:
    """Read blocks from the first byte to the last."""
    return float(sum(x.view(float).sum() for x in blocks))


def take_all() -> None:
    """Carry blocks of any size, whatever the connection."""
    from twom_dist.tiles.transport import worker_plugin

    worker_plugin.LEAST.update(tcp=0, tls=0)


@contextmanager
def start(secure: bool, transport: str) -> Iterator[Any]:
    """Start two workers of one thread; the current client is the one made here."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            security=secure or None,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            memory_limit=0,
        ) as cluster,
        Client(cluster) as client,
    ):
        with dask.config.set({"twom-dist.transport": transport}):
            ensure_plugins()
        client.run(take_all)
        yield client


def move(client: Any, nbytes: int) -> tuple[float, float]:
    """Return the seconds, and the seconds of CPU, that it takes to move 64 MiB."""
    one, other = sorted(client.scheduler_info(n_workers=-1)["workers"])
    count = max(1, TOTAL // nbytes)
    options = {"pure": False, "workers": [one]}
    blocks = client.map(make, [nbytes] * count, range(count), **options)
    client.submit(read, blocks, **options).result()
    before = sum(client.run(time.process_time).values())
    start = time.perf_counter()
    client.submit(read, blocks, pure=False, workers=[other]).result()
    seconds = time.perf_counter() - start
    return seconds, sum(client.run(time.process_time).values()) - before


def main() -> None:
    """Measure all ways in turn, and report medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1,4,16,64", help="MiB of a block")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output")
    arguments = parser.parse_args()
    report = Report(arguments.output)
    with ExitStack() as stack:
        clients = {name: stack.enter_context(start(*x)) for name, x in WAYS.items()}
        for size in map(float, arguments.sizes.split(",")):
            measured: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
            for turn in range(arguments.repeats + 1):
                for name, client in clients.items():
                    found = move(client, int(size * 2**20))
                    if turn:  # the first opens connections
                        measured[name].append(found)
            seconds = {name: [x[0] for x in found] for name, found in measured.items()}
            cpu = {name: [x[1] for x in found] for name, found in measured.items()}
            report.add(
                "transport",
                mib=size,
                gb_per_second={
                    name: TOTAL / median(x) / 1e9 for name, x in seconds.items()
                },
                cpu_seconds_per_gb={
                    name: median(x) / TOTAL * 1e9 for name, x in cpu.items()
                },
                seconds=seconds,
                cpu_seconds=cpu,
            )


if __name__ == "__main__":
    main()
