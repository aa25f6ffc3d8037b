"""Dask graphs on devices that only keep a clock: what products cost there, counted.

See `benchmarks.clocked`: the CUDA engine's launches, on NumPy blocks that stand for
ones whose sides are 64 times as long.
"""

from contextlib import contextmanager

import dask.array as da
import numpy as np
import pytest
from distributed import wait

import twom_dist as td
from tests.support.cuda import clock, clocked
from tests.support.jobs import addresses
from tests.support.workers import start_workers

WORKERS, TILES, TILE = 4, 4, 128
# Slower devices: on a machine with much else to do Python is late by many milliseconds,
# and a worker that waits for a tile begins the panel after the next, while encoded
# tiles of the last are still in use. Of so many runs the first in order is looked at.
DILATION, ATTEMPTS = 5, 30


@contextmanager
def devices(workers=WORKERS, **options):
    with clocked.clocked_devices(DILATION), start_workers(workers, **options) as client:
        yield client


def persisted(client, seed):
    """Make a matrix whose tiles lie on the workers in turns."""
    workers = addresses(client)
    rng, tiles = np.random.default_rng(seed), []
    for n in range(TILES**2):
        tile = rng.standard_normal((2, TILE, TILE))
        at = workers[(5 * n + n // TILES) % len(workers)]
        (tile,) = client.scatter([tile[0] + 1j * tile[1]], workers=[at])
        tiles.append(da.from_delayed(tile, (TILE, TILE), complex))
    rows = [
        da.concatenate(tiles[i : i + TILES], axis=1) for i in range(0, TILES**2, TILES)
    ]
    found = client.persist(da.concatenate(rows, axis=0))
    wait(found)
    return found


def run(client, routine, *given, **options):
    clocked.reset()
    plan = td.plan(routine, *given, **options)
    product = client.persist(routine(*given, **options))
    wait(product)
    return plan, [clocked.report(name) for name in range(WORKERS)], product


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("options", [{}, {"num_moduli": 16}], ids=["default", "given"])
def test_a_product_encodes_once_and_holds_what_its_plan_says(options, threads):
    with devices(threads_per_worker=threads) as client:
        a, b = (persisted(client, seed) for seed in (1, 2))
        for _ in range(ATTEMPTS):
            plan, found_there, product = run(client, td.gemm, a, b, **options)
            held = client.run(held_bytes)
            replicas = [len(x) for x in client.who_has([a, b]).values()]
            # Nothing stays of what came from other workers.
            assert replicas == [1] * 2 * TILES**2
            assert max(held.values()) <= plan.memory.inputs + plan.memory.outputs
            pr, pc, _ = plan.worker_grid
            edges = TILES // pr + TILES // pc
            peak = max(found["peak_bytes"] for found in found_there)
            most = clock.AREA * (plan.peak_worker_bytes - plan.memory.inputs)
            encoded = {found["encoded"] for found in found_there}
            if peak <= most and encoded == {edges * TILES}:
                break
            del product
    assert plan.spec.sweep == (TILES // pr, TILES // pc)
    assert encoded == {edges * TILES}
    assert peak <= most
    for found in found_there:
        assert found["counts"]["products"] == TILES**3 // WORKERS
    fetches = sum(found["counts"].get("fetch", 0) for found in found_there)
    assert fetches <= 6 if not options else fetches == 0
    # One for each panel and worker, for each tile of C, and those of the look.
    assert plan.num_tasks <= TILES * WORKERS + 4 * TILES**2
    # The host waits once a task, and for what it fetches.
    waits = sum(found["counts"]["wait"] for found in found_there)
    assert waits <= plan.num_tasks + fetches


def held_bytes(dask_worker):
    return sum(x.nbytes for x in dask_worker.data.values() if hasattr(x, "nbytes"))


def test_an_update_encodes_once_as_well():
    with devices() as client:
        a = persisted(client, 3)
        for _ in range(ATTEMPTS):
            plan, found_there, product = run(client, td.herk, a, num_moduli=16)
            most = plan.held_fraction * TILES**2
            encoded = max(found["encoded"] for found in found_there)
            if encoded <= most:
                break
            del product
    assert encoded <= most
