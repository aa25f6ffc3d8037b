"""Measure what it takes to move blocks from one worker of this machine to another.

Connections by TCP and by TLS, each in dask's messages and by ours
(`twom-dist.transport`), of NumPy blocks, or with ``--gpu`` of CuPy blocks of one GPU. A
task on one worker reads blocks that lie on the other, so that a block has arrived when
all of it has been read. Rates are those of 64 MiB, or of one larger block, in as many
blocks of ``--sizes`` MiB as that takes; seconds of CPU are those of both workers, and
stops the longest of either event loop. With ``--apart``, as root, the second worker is
in a network namespace of its own, as on another host.

    python benchmarks/bench_transport.py --sizes 1,4,16,64,1024 --repeats 9
"""

import asyncio
import os
import pickle
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask

from benchmarks.harness import Report, interleave, medians, run, start_client
from twom_dist.workers.client import ensure_plugins

TOTAL = 64 * 2**20
WAYS = {
    "tcp": (False, "dask"),
    "tls": (True, "dask"),
    "tcp, ours": (False, "auto"),
    "tls, ours": (True, "auto"),
}


def make(nbytes: int, _: int, gpu: bool) -> Any:
    xp = import_module("cupy" if gpu else "numpy")
    return xp.full(nbytes // 16, 1 + 2j)


def read(blocks: list[Any]) -> float:
    """Read blocks from the first byte to the last."""
    return float(sum(x.view(float).sum() for x in blocks))


def take_all() -> None:
    """Carry blocks of any size, whatever the connection."""
    from twom_dist.workers.transport import worker_plugin

    worker_plugin.LEAST.update(tcp=0, tls=0)


async def watch_loop(dask_worker: Any) -> None:
    """Note the stops of an event loop from now on."""

    async def watch() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            dask_worker.stops.append(now - last)
            last = now

    dask_worker.stops = []
    dask_worker.watch = asyncio.ensure_future(watch())


def longest_stop(dask_worker: Any) -> float:
    dask_worker.watch.cancel()
    return max(dask_worker.stops, default=0.0)


@contextmanager
def make_namespace() -> Iterator[tuple[str, str, list[str]]]:
    """Make a network namespace, as root: return addresses here and there, and a prefix.

    The prefix runs a command there.
    """
    name, link = f"twom-{os.getpid()}", f"twom{os.getpid() % 10**6}"
    here, there = "10.203.77.1", "10.203.77.2"
    ip = partial(subprocess.run, check=True, capture_output=True)
    ip(["ip", "netns", "add", name])
    try:
        ip(f"ip link add {link} type veth peer name {link}b netns {name}".split())
        ip(f"ip addr add {here}/24 dev {link}".split())
        ip(f"ip link set {link} up".split())
        ip(f"ip -n {name} addr add {there}/24 dev {link}b".split())
        ip(f"ip -n {name} link set {link}b up".split())
        ip(f"ip -n {name} link set lo up".split())
        yield here, there, ["ip", "netns", "exec", name]
    finally:
        ip(["ip", "netns", "del", name])


WORKER = """
import asyncio, logging, pickle, sys
from distributed import Worker
logging.getLogger("distributed").setLevel(logging.CRITICAL)
async def main(scheduler, host, path):
    security = pickle.load(open(path, "rb"))
    options = {"host": host, "nthreads": 1, "memory_limit": 0, "security": security}
    async with Worker(scheduler, dashboard=False, **options) as worker:
        await worker.finished()
asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def start_there(client: Any, host: str, prefix: list[str]) -> Iterator[None]:
    """Start a worker by a command that runs others."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "security"
        path.write_bytes(pickle.dumps(client.security))
        command = [*prefix, sys.executable, "-c", WORKER, client.scheduler.address]
        process = subprocess.Popen([*command, host, str(path)])
        try:
            client.wait_for_workers(2, timeout=60)
            yield
        finally:
            process.kill()
            process.wait()


@contextmanager
def start(secure: bool, transport: str, apart: Any = None) -> Iterator[Any]:
    """Start two workers; the current client is the one made here.

    `apart`: addresses and a prefix from `make_namespace`, where the second one is.
    """
    here, there, prefix = apart or ("127.0.0.1", "", [])
    given = {"host": here, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    count = 1 if apart else 2
    with ExitStack() as stack:
        own = start_client(count, security=secure or None, **given)
        client = stack.enter_context(own)
        if apart:
            stack.enter_context(start_there(client, there, prefix))
        with dask.config.set({"twom-dist.transport": transport}):
            ensure_plugins()
        client.run(take_all)
        yield client


def move(client: Any, nbytes: int, gpu: bool) -> tuple[float, float, float]:
    """Return seconds, seconds of CPU, and the longest stop of an event loop."""
    one, other = sorted(client.scheduler_info(n_workers=-1)["workers"])
    count = max(1, TOTAL // nbytes)
    options = {"pure": False, "workers": [one]}
    blocks = client.map(make, [nbytes] * count, range(count), gpu=gpu, **options)
    client.submit(read, blocks, **options).result()
    client.run(watch_loop)
    before = sum(client.run(time.process_time).values())
    start = time.perf_counter()
    client.submit(read, blocks, pure=False, workers=[other]).result()
    seconds = time.perf_counter() - start
    used = sum(client.run(time.process_time).values()) - before
    return seconds, used, max(client.run(longest_stop).values())


def bench_transport(report: Report, args: Namespace) -> None:
    with ExitStack() as stack:
        apart = stack.enter_context(make_namespace()) if args.apart else None
        clients = {x: stack.enter_context(start(*y, apart)) for x, y in WAYS.items()}
        for size in args.sizes:
            nbytes = int(size * 2**20)
            calls = {x: partial(move, y, nbytes, args.gpu) for x, y in clients.items()}
            # The first round opens connections.
            found = interleave(calls, args.repeats, lambda call: call())
            seconds, cpu, stops = (
                {name: [x[i] for x in times] for name, times in found.items()}
                for i in range(3)
            )
            total = max(TOTAL, nbytes)
            each = {name: x / total * 1e9 for name, x in medians(cpu).items()}
            rates = {name: total / x / 1e9 for name, x in medians(seconds).items()}
            report.add(
                "transport",
                mib=size,
                apart=args.apart,
                gb_per_second=rates,
                cpu_seconds_per_gb=each,
                seconds=seconds,
                cpu_seconds=cpu,
                longest_stops=medians(stops),
            )


if __name__ == "__main__":
    options = {"sizes": [1.0, 4.0, 16.0, 64.0], "repeats": 9}
    run(__doc__, bench_transport, gpu=False, apart=False, **options)
