"""Workers of several hosts, which are addresses of this one."""

import sys

import dask
import numpy as np
import pytest
from distributed import Client, Scheduler, SpecCluster, Worker, wait
from distributed.comm.addressing import get_address_host

import twom_dist as td
from tests.support import workers
from tests.support.expect import same_bits
from tests.support.transport import blocks_shared_by_hosts

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="127.0.0.2 is an address on Linux alone"
)
TILES, HOSTS, EACH = 8, 2, 4


@pytest.fixture
def client():
    own = {"memory_limit": 0, "nthreads": 1}
    given = {
        i: {"cls": Worker, "options": own | {"host": f"127.0.0.{2 + i % HOSTS}"}}
        for i in range(HOSTS * EACH)
    }
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    scheduler = {"cls": Scheduler, "options": options}
    # One tile a message, as large ones travel.
    alone = {"distributed.worker.transfer.message-bytes-limit": "1B"}
    with (
        blocks_shared_by_hosts(),
        dask.config.set(workers.PATIENT | alone),
        SpecCluster(workers=given, scheduler=scheduler, silence_logs=50) as cluster,
        Client(cluster) as made,
    ):
        made.wait_for_workers(HOSTS * EACH)
        yield made


def test_tiles_enter_a_host_little_more_than_once(client):
    a, b = client.persist([workers.drawn(x, TILES, TILES) for x in (1, 2)])
    wait([a, b])
    plan = td.plan(td.gemm, a, b, num_moduli=16)
    assert (plan.cluster.node, plan.layers) == (EACH, 1)
    held = {key: {*map(get_address_host, x)} for key, x in client.who_has().items()}
    product = client.persist(td.gemm(a, b, num_moduli=16))
    wait(product)
    needed, entered = set(), 0
    for (_, i, j), (worker,) in client.who_has(product).items():
        for step in range(TILES):
            tiles = (a.name, i, step), (b.name, step, j)
            needed |= {(get_address_host(worker), tile) for tile in tiles}
    once = sum(host not in held[tile] for host, tile in needed)
    for worker in client.cluster.workers.values():
        for log in worker.transfer_incoming_log:
            if get_address_host(log["who"]) != get_address_host(worker.address):
                entered += sum(key[0] in (a.name, b.name) for key in log["keys"])
    assert once <= entered <= 1.5 * once
    expected = td.gemm(np.asarray(a), np.asarray(b), num_moduli=16)
    assert same_bits(product.compute(), expected)
