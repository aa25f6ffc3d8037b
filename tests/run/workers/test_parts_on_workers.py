"""k shared by workers: nobody idle, no more moved than planned, and the same bits."""

import os
import signal
from collections import Counter
from functools import partial

import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait

import twom_dist as td
from tests.run.workers.test_placement_on_workers import (  # noqa: F401  (fixtures)
    WORKERS,
    block_behind,
    client,
    cluster,
    forget_transfers,
    moved_bytes,
    random_block,
    start_workers,
)
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.jobs import wait_until
from tests.support.strategies import random_matrix
from twom_dist.tiles.graph import PANEL, REDUCE

# Of 128 KiB with 16 moduli: what is smaller and moves is not counted.
TILE = 64


def drawn(seed, rows, columns):
    """Tiles that workers draw."""
    return da.map_blocks(
        random_block,
        seed,
        chunks=((TILE,) * rows, (TILE,) * columns),
        dtype=complex,
        meta=np.empty((0, 0), complex),
    )


def tasks_of(cluster, *stages):  # noqa: F811
    """Tasks of stages that have a place, by worker."""
    states = cluster.scheduler.tasks.items()
    chosen = [s for key, s in states if key[0].startswith(stages)]
    return Counter(next(iter(s.worker_restrictions)) for s in chosen)


@pytest.mark.parametrize(
    ("routine", "shape"),
    [
        (td.herk, (1, 24)),
        (td.syrk, (2, 16)),
        (td.her2k, (2, 12)),
        (td.gemm, (1, 24, 1)),
        (td.gemm, (1, 12, 3)),
        (td.gemm, (4, 2, 4)),
        (td.gemm, (2, 13, 2)),
    ],
)
def test_tall_products_keep_all_workers_at_work(
    client,  # noqa: F811
    cluster,  # noqa: F811
    routine,
    shape,
):
    m, k, *n = shape
    given = [drawn(10, m, k)]
    if routine is td.her2k:
        given.append(drawn(11, m, k))
    elif n:
        given.append(drawn(11, k, *n))
    options = {"num_moduli": 16}
    plan = td.plan(routine, *given, **options)
    assert plan.idle_workers == 0
    product = client.persist(routine(*given, **options))
    wait(product)
    if plan.layers > 1:
        assert len(tasks_of(cluster, PANEL)) == WORKERS
        assert tasks_of(cluster, REDUCE)
    # Inputs are drawn where they are needed.
    assert moved_bytes(client) <= 1.1 * plan.bytes_moved
    expected = routine(*[x.compute(scheduler="sync") for x in given], **options)
    assert same_bits(product.compute(), expected)


def scattered(client, seed, columns):  # noqa: F811
    """One row of tiles that lie on the workers in turns, equally many on each."""
    workers, tiles = sorted(client.run(os.getpid)), []
    for s in range(columns):
        at = {"workers": [workers[(5 * s + seed) % WORKERS]], "pure": False}
        tile = client.submit(random_matrix, TILE, TILE, seed=seed + s, **at)
        tiles.append(da.from_delayed(tile, (TILE, TILE), complex))
    found = client.persist(da.concatenate(tiles, axis=1))
    wait(found)
    return found


@pytest.mark.parametrize(
    ("routine", "apart"), [(td.herk, 0), (td.her2k, 0), (td.gemm, 1)]
)
def test_layers_take_the_tiles_that_their_workers_hold(
    client,  # noqa: F811
    routine,
    apart,
):
    given = [scattered(client, 0, 32)]
    if routine is not td.herk:
        given.append(scattered(client, WORKERS + apart, 32))
    options = {"num_moduli": 16} | ({"op_b": "C"} if routine is td.gemm else {})
    plan = td.plan(routine, *given, **options)
    client.run(forget_transfers)
    product = client.persist(routine(*given, **options))
    wait(product)
    assert plan.layers == WORKERS
    # Where tiles that meet lie apart, those of A stay.
    besides = apart * given[0].nbytes
    assert moved_bytes(client) <= 1.01 * (plan.bytes_moved + besides)
    expected = routine(*[x.compute() for x in given], **options)
    assert same_bits(product.compute(), expected)


def test_moduli_that_the_data_decide(client):  # noqa: F811
    a, b = (client.persist(drawn(seed, 1, 16)) for seed in (12, 13))
    product = client.persist(td.her2k(a, b))
    wait(product)
    assert same_bits(product.compute(), td.her2k(a.compute(), b.compute()))


@sample("stage", [PANEL, REDUCE], [REDUCE])
def test_a_worker_that_dies_with_sums_costs_time_and_no_bits(tmp_path, stage):
    # Integers, whose rows nobody has to see before any of them is multiplied.
    a, gate = (100 * drawn(80, 1, 12).real).astype(np.int16), tmp_path / "gate"
    expected = td.integers.syrk(a.compute(scheduler="sync"))
    held = a.blocks[:, 11:].map_blocks(partial(block_behind, gate), meta=a._meta)
    # The last part waits for its last tile; the others are done.
    a = da.concatenate([a[:, : 11 * TILE], held], axis=1)
    with (
        start_workers(2, processes=True, threads_per_worker=3) as cluster,  # noqa: F811
        Client(cluster) as client,  # noqa: F811
    ):
        pids = client.run(os.getpid)
        product = client.persist(td.integers.syrk(a))

        def holders():
            states = cluster.scheduler.tasks.items()
            chosen = [s for key, s in states if key[0].startswith(stage)]
            return [next(iter(s.who_has)).address for s in chosen if s.who_has]

        wait_until(holders)
        os.kill(pids[holders()[0]], signal.SIGKILL)
        gate.touch()
        found = product.compute()
    assert same_bits(found, expected)
