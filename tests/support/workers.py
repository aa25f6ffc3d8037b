"""Workers for every test that does not harm them, and what moves between them."""

import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, chdir, contextmanager
from unittest import mock

import dask
import dask.array
import numpy as np
import pytest
from distributed import Client, get_worker

from tests.support.command import ENVIRONMENT
from tests.support.jobs import local_workers, wait_until
from twom_dist.jobs import execution, watchdog
from twom_dist.tiles import cells
from twom_dist.tiles.dask.placement import plugin

GIB = 2**30
# Exponents of a tile are smaller by far, tiles that move larger.
SMALLEST_COUNTED = 10_000
PATIENT = {
    # Else a cluster gives up a worker that dies soon after another.
    "distributed.deploy.lost-worker-timeout": "10 minutes",
    # The memory manager may drop what is needed later: of the replicas of a tile it
    # keeps one for each worker with a task that waits for it, and for each task that
    # has no worker yet, but does not know which replica that is.
    "distributed.scheduler.active-memory-manager.start": False,
}


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """Two workers in a folder of their own, for every test that does not harm them."""
    with ExitStack() as stack:
        # Not in the folder of the test that happens to be the first to ask.
        with chdir(tmp_path_factory.mktemp("workers")):
            made = stack.enter_context(local_workers(2, memory_limit=2 * GIB))
        yield made


@pytest.fixture
def impatient(monkeypatch):
    """Give up a cluster after a second or two."""
    monkeypatch.setattr(watchdog, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "PATIENCE_SECONDS", 1.5)
    monkeypatch.setattr(execution, "CANCEL_SECONDS", 0.5)

    def answer_within(seconds):
        monkeypatch.setattr(watchdog, "ANSWER_SECONDS", seconds)

    return answer_within


@contextmanager
def start_workers(count, default=True, **options):
    """Start workers without the memory manager, and yield their client.

    They share this process, which starts them in no time, and talk over TCP. Those that
    other programs hold back keep their tiles: what moves is what was planned.
    """
    options = {"memory_limit": 0, "processes": False} | options
    never = mock.patch.object(plugin, "REBALANCE_SECONDS", 3600)
    # A limit is for plans: workers would weigh this process, tests before included.
    monitor = {"distributed.worker.memory.monitor-interval": "1h"}
    patient = dask.config.set(PATIENT | monitor)
    with never, patient, local_workers(count, default, **options) as client:
        client.wait_for_workers(count, timeout=60)
        yield client


@contextmanager
def started(program, *arguments, **variables):
    """Start a program of dask's, which is killed at the end."""
    module = f"distributed.cli.dask_{program}"
    command = [sys.executable, "-m", module, "--no-dashboard", *arguments]
    variables |= {"PYTHONSAFEPATH": "1"}  # not from where the tests run
    process = subprocess.Popen(command, env=ENVIRONMENT | variables)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler without workers, and a client that is the current one."""
    file = str(tmp_path / "scheduler.json")
    own = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", file]
    with started("scheduler", *own) as process, Client(scheduler_file=file) as client:
        yield process, client


def forget_transfers(dask_worker):
    dask_worker.transfer_incoming_log.clear()


def read_transfers(dask_worker):
    log = dask_worker.transfer_incoming_log
    return [item for entry in log for item in entry["keys"].items()]


def moved_bytes(client):
    """Bytes of tiles that have moved between workers, from the incoming side."""
    arrived = [item for log in client.run(read_transfers).values() for item in log]
    return sum(b for _, b in arrived if b > SMALLEST_COUNTED)


def random_block(seed, block_info=None):
    info = block_info[None]
    rng = np.random.default_rng([seed, *info["chunk-location"]])
    return rng.random(info["chunk-shape"]) + 1j * rng.random(info["chunk-shape"])


def drawn(seed, rows, columns, tile=40):
    return dask.array.map_blocks(
        random_block,
        seed,
        chunks=((tile,) * rows, (tile,) * columns),
        dtype=complex,
        meta=np.empty((0, 0), complex),
    )


def block_behind(gate, block):
    wait_until(gate.exists)
    return block


# --- tiles that take as long as their worker is slow ----------------------------------

SECONDS = 0.1
computed = Counter()
slowness = {}
_finish_cell = cells.finish_cell


def finish_slowly(*args, **options):
    """Finish a tile in a time that depends on the worker, and count it."""
    name = get_worker().name
    computed[name] += 1
    time.sleep(SECONDS * slowness.get(name, 1))
    return _finish_cell(*args, **options)


@pytest.fixture
def slow_tiles(monkeypatch):
    monkeypatch.setattr(cells, "finish_cell", finish_slowly)
    yield
    computed.clear()
    slowness.clear()
