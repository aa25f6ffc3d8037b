"""Blocks between two processes: past the connection, and by dask where that fails."""

import os
import signal
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import same_bits
from tests.support.jobs import addresses, local_workers, wait_until
from tests.support.strategies import random_matrix
from tests.support.workers import PATIENT
from twom_dist.tiles.accumulator import Accumulator
from twom_dist.workers.transport import serialiser

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="lanes use sockets as Linux has them"
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


def make_sums(seed):
    """Make sums of a sweep, as one layer of workers sends them to another."""
    return [((Accumulator(make(seed + i)),), 1) for i in range(2)]


def read_sums(sums):
    return [x.values.tobytes() for cell, _ in sums for x in cell]


def test_sums_of_a_sweep_pass_it(client):
    before, (one, other) = carried(client), addresses(client)
    sums = client.submit(make_sums, 1, workers=[one], pure=False)
    found = client.submit(read_sums, sums, workers=[other]).result()
    assert found == read_sums(make_sums(1))
    assert carried(client) == before + 2 * make(1).nbytes


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


def test_large_blocks_pass_tcp_as_well():
    with start_workers(security=None) as client:
        move(client, 1)  # smaller than lanes pay for there
        assert carried(client) == 0
        one, other = addresses(client)
        block = client.submit(np.ones, 2**20, workers=[one])
        assert client.submit(np.sum, block, workers=[other]).result() == 2**20
        assert carried(client) == 2**23


def test_one_setting_leaves_all_to_dask():
    transport = dask.config.set({"twom-dist.transport": "dask"})
    with transport, start_workers() as client:
        move(client, 1)
        assert [*client.run(read_carried).values()] == [None, None]


def count_kept(dask_worker):
    """Count what arrived by lanes and has not been taken, and those who bring it."""
    lanes = serialiser.receiver.lanes
    return len(lanes._blocks), len(lanes._lanes)


def break_lanes(dask_worker):
    """End the lanes of this worker's end, as if a cable had been pulled."""
    for lane in [*serialiser.receiver.lanes._lanes]:
        lane.close()


def break_next(dask_worker):
    """Have a lane break as the next block is on its way."""
    server = serialiser.receiver.lanes
    receive = server._receive

    def fail(lane, tickets):
        lane.inward.read(lane.inward.read_header())
        server._receive = receive
        raise MemoryError

    server._receive = fail
    break_lanes(dask_worker)


def lose_blocks(dask_worker):
    """Have the next block that lanes bring be gone when its message comes."""
    server = serialiser.receiver.lanes
    take = server.take

    def lose(ticket):
        del server.take
        server.drop([ticket])
        return take(ticket)

    server.take = lose


def test_what_lanes_do_not_bring_goes_by_dask_and_later_blocks_by_others(tls):
    other = addresses(tls)[1]
    move(tls, 1)
    tls.run(break_lanes, workers=[other])
    move(tls, 2)  # by lanes that are opened anew
    assert carried(tls) == 2 * make(1).nbytes
    tls.run(break_next, workers=[other])
    move(tls, 3)  # by dask, as its lane breaks under it
    assert carried(tls) == 2 * make(1).nbytes
    tls.run(lose_blocks, workers=[other])
    move(tls, 4)  # which dask asks for again
    assert carried(tls) == 4 * make(1).nbytes  # twice this one
    ((kept, lanes),) = tls.run(count_kept, workers=[other]).values()
    assert (kept, lanes > 0) == (0, True)


def refuse(dask_worker):
    dask_worker.handlers.pop("twom_dist_offer")


def test_a_worker_without_lanes_is_sent_blocks_by_dask(tls):
    tls.run(refuse)
    move(tls, 1)
    assert carried(tls) == 0


def test_a_sender_that_is_killed_leaves_nothing_and_its_block_is_made_again(tls):
    one, other = addresses(tls)
    move(tls, 1)
    block = tls.submit(make, 2, pure=False, workers=[one], allow_other_workers=True)
    block.result()
    os.kill(tls.run(os.getpid, workers=[one])[one], signal.SIGKILL)
    found = tls.submit(np.ndarray.tobytes, block, workers=[other])
    assert found.result() == make(2).tobytes()
    wait_until(lambda: [*tls.run(count_kept, workers=[other]).values()] == [(0, 0)])
