"""Tiles of workers that come late, or are slow, paused or of many threads.

And of those that a user has allowed.
"""

import time
from contextlib import contextmanager

import dask.array as da
import pytest
from distributed import Client, Scheduler, SpecCluster, Worker, wait
from distributed.core import Status
from distributed.system import MEMORY_LIMIT

import twom_dist as td
from tests.support.expect import same_bits
from tests.support.jobs import wait_until
from tests.support.strategies import random_matrix
from tests.support.workers import SECONDS, computed, slow_tiles, slowness

pytestmark = pytest.mark.usefixtures("slow_tiles")
__all__ = ["slow_tiles"]

A, B = random_matrix(100, 20), random_matrix(20, 100, seed=1)


HERE, THERE = "127.0.0.1", "127.0.0.2"


def of_threads(*threads, first=0, memory=0, host=HERE):
    found = enumerate(threads, start=first)
    options = {"host": host, "memory_limit": memory}
    return {i: {"cls": Worker, "options": options | {"nthreads": n}} for i, n in found}


@contextmanager
def start(*threads):
    """Start workers within this process."""
    options = {"dashboard_address": f"{HERE}:0", "host": HERE}
    scheduler = {"cls": Scheduler, "options": options}
    workers = of_threads(*threads)
    with (
        SpecCluster(workers=workers, scheduler=scheduler, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        if threads:
            client.wait_for_workers(len(threads))
        # The first product of a client brings the plugin.
        td.gemm(x := da.zeros((2, 2)), x)
        yield cluster


def add(cluster, *threads, **options):
    """Start workers besides."""
    spec = of_threads(*threads, first=len(cluster.worker_spec), **options)
    cluster.worker_spec.update(spec)
    cluster.sync(cluster._correct_state)


def begin(alpha=1.0, **where):
    """Begin a product of a hundred tiles, each of which a task computes in one go."""
    x, y = da.from_array(A, chunks=(10, 20)), da.from_array(B, chunks=(20, 10))
    return td.gemm(x, y, alpha=alpha, num_moduli=16).persist(**where)


def count(product, tiles=100):
    """Return the tiles of each worker, in their order, once all are there."""
    assert same_bits(product.compute(), td.gemm(A, B, num_moduli=16))
    assert sum(computed.values()) >= tiles
    assert tiles != 100 or sum(computed.values()) == tiles
    return [computed[name] for name in range(1 + max(computed))]


def addresses(cluster, *names):
    return [cluster.workers[name].address for name in names]


def die(cluster, *names):
    for address in addresses(cluster, *names):
        remove = cluster.scheduler.remove_worker
        cluster.sync(remove, address, stimulus_id="dies", expected=True)


def test_equal_workers_keep_what_they_were_given():
    with start(1, 1, 1, 1):
        assert all(20 <= x <= 30 for x in count(begin()))


def test_workers_that_come_late_get_their_share():
    with start(1, 1) as cluster:
        product = begin()
        time.sleep(15 * SECONDS)
        add(cluster, 1, 1)
        assert min(count(product)) >= 10


def test_names_do_not_change_with_the_workers():
    with start(1, 1) as cluster:
        first = begin()
        # The plan has less memory for encoded tiles.
        add(cluster, 1, 1, memory=2**30)
        assert begin().name == first.name


async def stop(adaptive):
    adaptive.stop()


def test_plans_before_the_first_worker_count_those_to_come():
    with start() as cluster:
        options = {"nthreads": 2, "memory_limit": "2 GiB"}
        cluster.new_spec = {"cls": Worker, "options": options}
        adaptive = cluster.adapt(minimum=0, maximum=3)
        x = da.zeros((64, 64), chunks=8)
        found = td.plan(td.gemm, x, x).cluster
        assert (found.workers, found.threads) == (3, 2)
        assert found.memory.limit == 2**31
        # As dask reads them: shares of a machine, or none.
        for given, limit in [(0.5, MEMORY_LIMIT // 2), ("1.0", MEMORY_LIMIT)]:
            options["memory_limit"] = given
            assert td.plan(td.gemm, x, x).cluster.memory.limit == limit
        options["memory_limit"] = "auto"
        assert td.plan(td.gemm, x, x).cluster.memory.limit is None
        cluster.sync(stop, adaptive)
        assert td.plan(td.gemm, x, x).cluster.workers == 1


def test_a_slow_worker_does_not_set_the_time():
    slowness[3] = 5
    with start(1, 1, 1, 1):
        found = count(begin())
    assert found[3] <= 13
    assert min(found[:3]) >= 25


def test_tiles_are_shared_by_threads():
    with start(1, 1, 1, 4):
        found = count(begin())
    assert found[3] >= 45
    assert min(found[:3]) >= 5


@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_paused_worker_gives_away_what_it_has_not_begun(is_chosen):
    with start(1, 1, 1) as cluster:
        product = begin(workers=addresses(cluster, 0, 1) if is_chosen else None)
        time.sleep(5 * SECONDS)
        worker = cluster.workers[0]
        worker.memory_manager.memory_pause_fraction = False
        cluster.loop.add_callback(lambda: setattr(worker, "status", Status.paused))
        found = count(product)
    assert found[0] <= 15
    assert (sum(found[2:]) == 0) == is_chosen


def test_a_plugin_that_was_removed_moves_nothing():
    with start(1) as cluster:
        (name,) = {x for x in cluster.scheduler.plugins if x.startswith("twom")}
        cluster.scheduler.remove_plugin(name=name)
        wait_until(lambda: name not in cluster.scheduler.periodic_callbacks)


def test_tiles_are_shared_by_the_allowed_workers_and_their_threads():
    with start(1, 1, 1, 3) as cluster:
        found = count(begin(workers=addresses(cluster, 1, 3)))
    assert found[0] == found[2] == 0
    assert found[1] >= 10
    assert found[3] >= 60


def test_one_allowed_worker_has_all_tiles():
    with start(1, 1, 4) as cluster:
        assert count(begin(workers=addresses(cluster, 2))) == [0, 0, 100]


def test_a_preference_is_one():
    with start(1, 1, 1) as cluster:
        wanted = addresses(cluster, 1, 2)
        product = begin(workers=wanted, allow_other_workers=True)
        time.sleep(5 * SECONDS)
        die(cluster, 1)
        time.sleep(5 * SECONDS)
        assert computed[0] == 0
        die(cluster, 2)
        assert count(product, tiles=101)[0] >= 80


def test_products_have_workers_of_their_own():
    with start(1, 1, 1, 1) as cluster:
        sets = [addresses(cluster, *x) for x in ((0, 2), (1, 3))]
        products = [begin(x, workers=y) for x, y in enumerate(sets, 1)]
        wait(products)
        tasks = cluster.scheduler.tasks
        for product, allowed in zip(products, sets, strict=True):
            found = [tasks[x].who_has for x in tasks if x[0] == product.name]
            assert {ws.address for holders in found for ws in holders} == {*allowed}
        assert all(40 <= computed[name] <= 60 for name in range(4))


def test_a_late_worker_helps_where_it_is_allowed():
    with start() as cluster:
        add(cluster, 1, 1, host=THERE)
        product = begin(workers=[THERE])
        time.sleep(15 * SECONDS)
        add(cluster, 1, host=HERE)
        add(cluster, 1, host=THERE)
        found = count(product)
    assert found[2] == 0
    assert found[3] >= 10


def test_tiles_of_the_dead_stay_with_those_who_are_allowed():
    with start(1, 1, 1, 1) as cluster:
        product = begin(workers=addresses(cluster, 0, 1, 2))
        while not computed[0]:  # a tile that is lost with its worker
            time.sleep(SECONDS)
        die(cluster, 0)
        found = count(product, tiles=101)
    assert len(found) == 3
    assert min(found[1:]) >= 30


def test_a_product_waits_for_those_who_are_allowed():
    with start(1) as cluster:
        add(cluster, 1, 1, host=THERE)
        product = begin(workers=[THERE])
        while not (computed[1] or computed[2]):  # a tile that is lost
            time.sleep(SECONDS)
        die(cluster, 1, 2)
        time.sleep(5 * SECONDS)
        assert computed[0] == 0
        add(cluster, 1, 1, host=THERE)
        found = count(product, tiles=101)
    assert found[0] == 0
    assert min(found[3:]) >= 30
