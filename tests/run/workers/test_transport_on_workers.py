"""Blocks between two processes: past the connection, and by dask where that fails."""

import asyncio
import os
import signal
import time
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.jobs import HERE, IN_PROCESS, addresses, forked_workers, wait_until
from tests.support.strategies import random_matrix
from tests.support.transport import files_in_memory
from twom_dist.run.client import ensure_plugins
from twom_dist.tiles.accumulator import Accumulator
from twom_dist.tiles.transport import leases, passage, serialiser, worker_plugin
from twom_dist.tiles.transport.worker_plugin import TransportPlugin

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.skipif(
        not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
    ),
]

SIDE = 300  # blocks of 1.4 MB
PATIENT = {
    # Else a cluster gives up a worker that dies soon after another.
    "distributed.deploy.lost-worker-timeout": "10 minutes",
    # Every two seconds dask drops copies, while a test looks at them.
    "distributed.scheduler.active-memory-manager.start": False,
}


@contextmanager
def start_workers(security=True):
    """Start two worker processes, whose blocks go as the settings say."""
    options = HERE | {"protocol": None} if security else HERE
    with (
        dask.config.set(PATIENT),
        forked_workers(),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            security=security,
            memory_limit="2 GiB",
            **options,
        ) as cluster,
        Client(cluster) as client,
    ):
        ensure_plugins()
        yield client


def take_all():
    """Have this process send blocks of the host as it would those of a device."""
    worker_plugin.LEAST["tcp"] = 0


@pytest.fixture(scope="module", params=["tcp", "tls"])
def client(request):
    with start_workers(True if request.param == "tls" else None) as client:
        assert client.scheduler.address.startswith(request.param)
        client.run(take_all)
        yield client


@pytest.fixture
def tls():
    """Workers to harm."""
    with start_workers() as client:
        yield client


# --- on the workers -------------------------------------------------------------------


def make(seed):
    return random_matrix(SIDE, SIDE, seed=seed)


def accumulate(seed):
    return Accumulator(make(seed), None)


def as_bytes(x):
    return (x.values if isinstance(x, Accumulator) else x).tobytes()


def read_carried(dask_worker):
    return sum(dask_worker.plugins[TransportPlugin.name].carried.values())


def list_files(dask_worker):
    return files_in_memory(os.getpid())


def works():
    return serialiser.receiver.works


# --- helpers --------------------------------------------------------------------------


def carried(client):
    return sum(client.run(read_carried).values())


def move(client, seed, function=make, one=0):
    """Make a block on one worker, have the other read it, and compare the bits."""
    names = addresses(client)
    block = client.submit(function, seed, workers=[names[one]], pure=False)
    found = client.submit(as_bytes, block, workers=[names[1 - one]], pure=False)
    assert found.result() == make(seed).tobytes()
    return block


# --- what goes right ------------------------------------------------------------------


@pytest.mark.parametrize("function", [make, accumulate])
def test_blocks_pass_the_connection_between_workers_alone(client, function):
    before = carried(client)
    block = move(client, 1, function)
    assert carried(client) == before + make(1).nbytes
    for direct in (True, False):
        found = client.gather(block, direct=direct)
        assert as_bytes(found) == make(1).tobytes()
    sent = client.scatter(make(2), workers=addresses(client)[:1])
    assert as_bytes(sent.result()) == make(2).tobytes()
    assert carried(client) == before + make(1).nbytes
    del block, found, sent
    wait_until(lambda: not any(client.run(list_files).values()))


def test_products_pass_it(client):
    seeds = np.arange(9).reshape(3, 3)
    make_block = dask.delayed(make)
    lazy = da.block(
        [
            [da.from_delayed(make_block(x), (SIDE, SIDE), complex) for x in row]
            for row in seeds.tolist()
        ]
    )
    whole = np.block([[make(x) for x in row] for row in seeds])
    before = carried(client)
    with dask.config.set({"twom-dist.panel-bytes": "3 MB"}):
        found = td.gemm(lazy, lazy, op_b="C", num_moduli=16).compute()
    assert same_bits(found, td.gemm(whole, whole, op_b="C", num_moduli=16))
    assert carried(client) > before


def weigh_and_spill(key, dask_worker):
    """Return what dask takes a block to weigh, and its bytes once they were on disk."""
    data, weight = dask_worker.data, dask_worker.state.tasks[key].nbytes
    while key in data.fast:
        data.evict()
    assert not files_in_memory(os.getpid())
    return weight, data[key].nbytes, data[key].tobytes()


def test_dask_weighs_and_spills_what_arrives(client):
    block = move(client, 3)
    for found in client.run(weigh_and_spill, block.key).values():
        assert found == (make(3).nbytes, make(3).nbytes, make(3).tobytes())


def test_others_are_left_to_dask(client):
    one, other = addresses(client)
    before = carried(client)
    if client.scheduler.address.startswith("tls"):
        small = client.submit(np.ones, 100, workers=[one], pure=False)
        assert client.submit(len, small, workers=[other], pure=False).result() == 100
    text = client.submit(lambda: "x" * 2**21, workers=[one], pure=False)
    assert client.submit(len, text, workers=[other], pure=False).result() == 2**21
    assert carried(client) == before


def test_tcp_is_left_what_it_carries_as_well():
    with start_workers(None) as client:
        move(client, 1)
        assert carried(client) == 0


def test_one_setting_leaves_all_to_dask():
    """Workers of this process: they are asked for their plugins alone."""
    for choice, expected in (("dask", False), ("auto", True)):
        with (
            dask.config.set({"twom-dist.transport": choice}),
            LocalCluster(n_workers=1, **IN_PROCESS) as cluster,
            Client(cluster) as client,
        ):
            ensure_plugins()
            (names,) = client.run(lambda dask_worker: [*dask_worker.plugins]).values()
            assert (TransportPlugin.name in names) == expected


# --- what goes wrong ------------------------------------------------------------------


def live_elsewhere():
    """Have this process look where another host or container would: beside them."""
    leases.Ticket.path = property(lambda self: "/proc/self/fd/1000000")


def lack():
    raise ModuleNotFoundError("No module named 'twom_dist'")


def test_a_plugin_that_cannot_be_read_stops_nothing(monkeypatch):
    monkeypatch.setattr(TransportPlugin, "__reduce__", lambda self: (lack, ()))
    with LocalCluster(n_workers=1, **IN_PROCESS) as cluster, Client(cluster):
        ensure_plugins()


async def take_long(plugin, worker):
    await asyncio.sleep(5)


def test_a_silent_worker_gets_it_later(monkeypatch):
    monkeypatch.setattr(TransportPlugin, "setup", take_long)
    monkeypatch.setattr(TransportPlugin, "teardown", lambda self, worker: None)
    monkeypatch.setattr("twom_dist.run.answers.ANSWER_SECONDS", 0.1)
    with LocalCluster(n_workers=1, **IN_PROCESS) as cluster, Client(cluster):
        begin = time.monotonic()
        ensure_plugins()
        assert time.monotonic() - begin < 4


def fail_to_take():
    def fail(ticket):
        raise MemoryError("no room")

    passage.map_lease = fail


def test_another_host_is_sent_everything_by_dask(tls):
    tls.run(live_elsewhere, workers=addresses(tls)[1:])
    move(tls, 1)
    assert carried(tls) == 0
    move(tls, 2, one=1)
    assert carried(tls) == make(2).nbytes


def test_a_receiver_that_cannot_take_a_block_gets_it_from_dask(tls):
    move(tls, 1)
    tls.run(fail_to_take, workers=addresses(tls)[1:])
    for seed in (2, 3):
        move(tls, seed)
    assert [*tls.run(works).values()].count(False) == 1
    assert carried(tls) == 2 * make(1).nbytes  # the first, and the one that failed


def hang_in_taking():
    """Have this process not come back from the next block that it takes."""

    def hang(ticket):
        open("hangs", "w").close()
        time.sleep(60)

    passage.map_lease = hang


def hang_in_lending():
    def hang(self, data):
        open("hangs", "w").close()
        time.sleep(60)

    leases.Lease.write = hang


@sample("victim", [0, 1], [1])
def test_a_worker_that_dies_in_the_middle_leaves_nothing(
    tls, victim, tmp_path, monkeypatch
):
    names = addresses(tls)
    tls.run(os.chdir, str(tmp_path))
    move(tls, 1)
    processes = tls.run(os.getpid)
    harm = [hang_in_lending, hang_in_taking][victim]
    tls.run(harm, workers=[names[victim]])
    # Both are made again, by whatever is left.
    block = tls.submit(make, 2, workers=names[:1], allow_other_workers=True)
    tls.gather(tls.submit(len, block, workers=names[:1], pure=False))
    found = tls.submit(
        as_bytes, block, workers=names[1:], allow_other_workers=True, pure=False
    )
    wait_until((tmp_path / "hangs").exists)
    os.kill(processes[names[victim]], signal.SIGKILL)
    assert found.result() == make(2).tobytes()
    survivor = processes[names[1 - victim]]
    del block, found
    wait_until(lambda: not files_in_memory(survivor))
    wait_until(lambda: not psutil.pid_exists(processes[names[victim]]))
