"""Blocks between two processes: past the connection, and by dask where that fails."""

import os
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import same_bits
from tests.support.jobs import addresses, local_workers, wait_until
from tests.support.strategies import random_matrix
from tests.support.transport import files_in_memory
from tests.support.workers import PATIENT
from twom_dist.workers.transport import leases, serialiser

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)
SIDE = 300  # blocks of 1.4 MB


@contextmanager
def start_workers(security=True):
    """Start two worker processes, whose blocks go as the settings say."""
    options = {"security": security} | ({"protocol": None} if security else {})
    with (
        dask.config.set(PATIENT),
        local_workers(2, memory_limit="2 GiB", **options) as client,
        client.as_current(),
    ):
        # The first product of a client brings the plugin.
        td.gemm(x := da.zeros((2, 2)), x)
        yield client


@pytest.fixture(scope="module")
def client():
    with start_workers() as client:
        yield client


@pytest.fixture
def tls():
    """Workers to harm."""
    with start_workers() as client:
        yield client


def make(seed):
    return random_matrix(SIDE, SIDE, seed=seed)


def read_carried(dask_worker):
    plugin = dask_worker.plugins.get("twom-transport")
    return plugin and sum(plugin.carried.values())


def carried(client):
    return sum(client.run(read_carried).values())


def move(client, seed, one=0):
    """Make a block on one worker, have the other read it, and compare the bits."""
    names = addresses(client)
    block = client.submit(make, seed, workers=[names[one]], pure=False)
    found = client.submit(np.ndarray.tobytes, block, workers=[names[1 - one]])
    assert found.result() == make(seed).tobytes()
    return block


def weigh_and_spill(key, dask_worker):
    """Return what dask takes a block to weigh, and its bytes once they were on disk."""
    data, weight = dask_worker.data, dask_worker.state.tasks[key].nbytes
    while key in data.fast:
        data.evict()
    assert not files_in_memory(os.getpid())
    return weight, data[key].nbytes, data[key].tobytes()


def test_blocks_pass_the_connection_between_workers_alone(client):
    before = carried(client)
    block = move(client, 1)
    assert carried(client) == before + make(1).nbytes
    for direct in (True, False):
        assert same_bits(client.gather(block, direct=direct), make(1))
    sent = client.scatter(make(2), workers=addresses(client)[:1])
    assert same_bits(sent.result(), make(2))
    # Nor do small blocks and others pass it.
    one, other = addresses(client)
    for function, given, size in ((np.ones, 100, 100), ("x".__mul__, 2**21, 2**21)):
        left = client.submit(function, given, workers=[one])
        assert client.submit(len, left, workers=[other]).result() == size
    assert carried(client) == before + make(1).nbytes
    for found in client.run(weigh_and_spill, block.key).values():
        assert found == (make(1).nbytes, make(1).nbytes, make(1).tobytes())
    del block, sent, left
    wait_until(
        lambda: not any(client.run(lambda: files_in_memory(os.getpid())).values())
    )


def test_products_pass_it(client):
    seeds = np.arange(9).reshape(3, 3).tolist()
    whole = np.block([[make(x) for x in row] for row in seeds])
    lazy = da.map_blocks(
        lambda block_id: make(3 * block_id[0] + block_id[1]),
        chunks=((SIDE,) * 3,) * 2,
        meta=np.empty((0, 0), complex),
    )
    before = carried(client)
    with dask.config.set({"twom-dist.panel-bytes": "3 MB"}):
        found = td.gemm(lazy, lazy, op_b="C", num_moduli=16).compute()
    assert same_bits(found, td.gemm(whole, whole, op_b="C", num_moduli=16))
    assert carried(client) > before


@pytest.mark.parametrize(("security", "choice"), [(None, "auto"), (True, "dask")])
def test_tcp_and_one_setting_leave_all_to_dask(security, choice):
    transport = dask.config.set({"twom-dist.transport": choice})
    with transport, start_workers(security) as client:
        move(client, 1)
        told = client.run(read_carried).values()
        assert [*told] == 2 * [0 if choice == "auto" else None]


def live_elsewhere():
    """Have this process look where another host or container would: beside them."""
    leases.Ticket.path = property(lambda self: "/proc/self/fd/1000000")


def fail_to_take():
    def fail(ticket):
        raise MemoryError("no room")

    serialiser.map_lease = fail


def test_what_cannot_pass_goes_by_dask(tls):
    one, other = addresses(tls)
    move(tls, 1)
    tls.run(fail_to_take, workers=[other])
    for seed in (2, 3):
        move(tls, seed)
    # The first, and the one that failed.
    assert carried(tls) == 2 * make(1).nbytes
    tls.run(live_elsewhere, workers=[one])
    move(tls, 4, one=1)
    assert carried(tls) == 2 * make(1).nbytes
