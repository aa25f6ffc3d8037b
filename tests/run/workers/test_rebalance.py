"""Tiles of workers that come late, or are slow, paused or of many threads."""

import time
from contextlib import contextmanager

import dask.array as da
import pytest
from distributed import Client, Scheduler, SpecCluster, Worker
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


def of_threads(*threads, first=0, memory=0):
    found = enumerate(threads, start=first)
    options = {"host": "127.0.0.1", "memory_limit": memory}
    return {i: {"cls": Worker, "options": options | {"nthreads": n}} for i, n in found}


@contextmanager
def start(*threads):
    """Start workers within this process."""
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
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


def begin():
    """Begin a product of a hundred tiles, each of which a task computes in one go."""
    x, y = da.from_array(A, chunks=(10, 20)), da.from_array(B, chunks=(20, 10))
    return td.gemm(x, y, num_moduli=16).persist()


def count(product):
    """Return the tiles of each worker, in their order, once all are there."""
    assert same_bits(product.compute(), td.gemm(A, B, num_moduli=16))
    assert sum(computed.values()) == 100
    return [computed[name] for name in range(1 + max(computed))]


def test_equal_workers_keep_what_they_were_given():
    with start(1, 1, 1, 1):
        assert all(20 <= x <= 30 for x in count(begin()))


def test_workers_that_come_late_get_their_share():
    with start(1, 1) as cluster:
        product = begin()
        time.sleep(15 * SECONDS)
        cluster.worker_spec.update(of_threads(1, 1, first=2))
        cluster.sync(cluster._correct_state)
        assert min(count(product)) >= 10


def test_names_do_not_change_with_the_workers():
    with start(1, 1) as cluster:
        first = begin()
        # The plan has less memory for encoded tiles.
        cluster.worker_spec.update(of_threads(1, 1, first=2, memory=2**30))
        cluster.sync(cluster._correct_state)
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


def test_a_paused_worker_gives_away_what_it_has_not_begun():
    with start(1, 1, 1) as cluster:
        product = begin()
        time.sleep(5 * SECONDS)
        worker = cluster.workers[0]
        worker.memory_manager.memory_pause_fraction = False
        cluster.loop.add_callback(lambda: setattr(worker, "status", Status.paused))
        assert count(product)[0] <= 15


def test_a_plugin_that_was_removed_moves_nothing():
    with start(1) as cluster:
        (name,) = {x for x in cluster.scheduler.plugins if x.startswith("twom")}
        cluster.scheduler.remove_plugin(name=name)
        wait_until(lambda: name not in cluster.scheduler.periodic_callbacks)
