"""Copies of input tiles are dropped, but nothing that anybody takes: workers live."""

import gc
import logging
import time

import numpy as np
import pytest
from distributed import Client, wait

import twom_dist as td
from benchmarks import clocked
from tests.run.workers.test_placement_on_workers import random_array, start_workers
from tests.support.bits import same_bits
from tests.support.jobs import addresses


@pytest.fixture
def client():
    with (
        start_workers(2, threads_per_worker=2) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def inputs(client):
    a, b = client.persist([random_array(seed, 5) for seed in (20, 21)])
    wait([a, b])
    return a, b


@pytest.fixture(autouse=True)
def nobody_ends(client, caplog):
    """A worker that is asked to drop what a task of its own takes ends itself."""
    with caplog.at_level(logging.INFO, "distributed"):
        yield
    there = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.workers))
    said = [record.getMessage() for record in caplog.records]
    assert not any("Plugin failed" in x or "Cannot remove" in x for x in said)
    assert there == 2, said


def test_copies_go_with_the_product_and_those_of_the_user_stay(client, inputs):
    a, b = inputs
    client.replicate(a)
    wait(client.persist(td.gemm(a, b)))
    # The message is sent after the last task has ended.
    client.submit(time.sleep, 0.1).result()
    assert {len(x) for x in client.who_has(a).values()} == {2}
    assert {len(x) for x in client.who_has(b).values()} == {1}


def test_products_that_are_given_up_leave_their_inputs(client, inputs):
    a, b = inputs
    for turn in range(5):
        product = client.persist(td.gemm(a, b, alpha=1 + turn))
        time.sleep(0.02 * (1 + turn))
        del product
        gc.collect()
    assert np.isfinite(a.sum().compute())


def test_products_share_inputs(client, inputs):
    a, b = inputs
    x, y = a.compute(), b.compute()
    for turn in range(3):
        first = client.persist(td.gemm(a, b, alpha=1 + turn))
        time.sleep(0.02 * turn)
        second, third = client.persist([td.gemm(b, a), td.gemm(a, b, alpha=10 + turn)])
        wait([first, second, third])
        assert same_bits(second.compute(), td.gemm(y, x))
        assert same_bits(third.compute(), td.gemm(x, y, alpha=10 + turn))


def slowly(tile):
    time.sleep(0.2)
    return float(tile[0, 0].real)


def test_tasks_of_a_user_take_tiles_meanwhile(client, inputs):
    a, b = inputs
    tiles = list(a.dask.layers[a.name].values())
    workers = addresses(client)
    for turn in range(3):
        product = client.persist(td.gemm(a, b, alpha=1 + turn))
        time.sleep(0.02 * turn)
        asked = [
            client.submit(slowly, tile, workers=[workers[n % 2]], pure=False)
            for n, tile in enumerate(tiles[:6])
        ]
        wait([product, *asked])
        assert all(x.status == "finished" for x in asked)


def test_a_plugin_forgets_what_it_has_watched(client, inputs):
    a, b = inputs

    def watched(dask_scheduler):
        plugin = dask_scheduler.plugins["twom-placement"]
        return len(plugin.replicas._tasks), len(plugin.replicas._waiting)

    for turn in range(3):
        product = client.persist(td.gemm(a, b, alpha=1 + turn))
        if turn:
            wait(product)
        del product
        gc.collect()
    a.sum().compute()
    deadline = time.monotonic() + 20
    while client.run_on_scheduler(watched) != (0, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.run_on_scheduler(watched) == (0, 0)


def test_products_on_devices_are_given_up(client, inputs):
    with clocked.clocked_devices():
        a, b = inputs
        for turn in range(4):
            product = client.persist(td.gemm(a, b, alpha=1 + turn))
            time.sleep(0.03 * turn)
            del product
            gc.collect()
        assert np.isfinite(a.sum().compute())
