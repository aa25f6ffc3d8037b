"""Equilibrated products on a cluster and in jobs: the bits of those in memory."""

from collections import Counter
from functools import partial

import dask.array as da
import numpy as np
import pytest
from distributed import wait
from distributed.diagnostics.plugin import SchedulerPlugin

import twom_dist as td
from tests.run.workers.test_placement_on_workers import (  # noqa: F401  (fixtures)
    TILE,
    TILES,
    client,
    cluster,
    moved_bytes,
    moved_tiles,
    needed_tiles,
    random_array,
    tiles_missing,
)
from tests.support.bits import same_bits
from tests.support.command import read, save
from tests.support.jobs import compute_in_waves, stop_after
from tests.support.strategies import spread_pair
from twom_dist.api.files import multiply_files, update_files
from twom_dist.jobs import open_job
from twom_dist.tiles.placement.grids import WorkerGrid, summa_bytes


@pytest.mark.parametrize("spread", [0, 20])
def test_no_more_is_moved(client, spread):  # noqa: F811
    factors = np.ldexp(1.0, np.arange(TILES * TILE) % (spread + 1))
    a, b = random_array(10), random_array(11)
    d = da.from_array(factors, chunks=TILE)
    options = {"equilibrate": True, "num_moduli": 16}
    product = client.persist(td.gemm(a * d, b / d[:, np.newaxis], **options))
    wait(product)
    tiles = TILES * TILES
    summa = summa_bytes(WorkerGrid(2, 2), TILES, TILES, tiles, tiles)
    assert moved_tiles(client) <= 1.05 * summa
    x, y = a.compute() * factors, b.compute() / factors[:, np.newaxis]
    whole = td.gemm(x, y, num_moduli=16)
    equilibrated = bool(spread)
    assert same_bits(product.compute(), whole) != equilibrated


class Peak(SchedulerPlugin):
    """Watches how many bytes of tiles the fullest worker holds."""

    def __init__(self, scheduler):
        self.scheduler, self.bytes = scheduler, 0
        scheduler.add_plugin(self)

    def transition(self, *args, **kwargs):
        workers = self.scheduler.workers.values()
        self.bytes = max(self.bytes, *(worker.nbytes for worker in workers))


def test_inputs_that_lie_on_the_workers_move_once(client, cluster):  # noqa: F811
    """By default, when all is looked at twice, no more than with given moduli.

    Nor does a worker hold more than what lay on it, what it needs, and its tiles of C.
    """
    # Beside tiles of this size a look at pairs hardly counts.
    side, tile = 1600, 200
    state = da.random.default_rng(1)
    drawn = [state.random((side, side), chunks=tile) + 0j for _ in "ab"]
    a, b = client.persist(drawn)
    wait([a, b])
    held, before = client.who_has(), moved_bytes(client)
    peak = Peak(cluster.scheduler)
    product = client.persist(td.gemm(a, b))
    wait(product)
    missing = tiles_missing(client, product, held, a, b)
    assert moved_bytes(client) - before <= 1.05 * missing * tile * tile * 16
    found = needed_tiles(client, product, a, b)
    for tiles in (held, client.who_has(product)):
        found |= {(worker, key) for key, workers in tiles.items() for worker in workers}
    (_, most), *_ = Counter(worker for worker, _ in found).most_common()
    assert peak.bytes <= 1.05 * most * tile * tile * 16
    assert same_bits(product.compute(), td.gemm(a.compute(), b.compute()))


@pytest.fixture
def stored(here):
    """Store A, B, and B^H as the second matrix of her2k."""
    a, b = spread_pair(60, 60, 50, 6)
    a[3, 4] = np.nan
    np.save("A.npy", a)
    save("B.zarr", b)
    save("BH.zarr", b.conj().T.copy())
    return a, b


multiply = partial(multiply_files, "A.npy", "B.zarr", equilibrate=True)


def test_jobs_have_the_same_bits_in_waves_and_continued(stored):
    expected = td.gemm(*stored, equilibrate=True)
    job = open_job(td.gemm.ask("A.npy", "B.zarr", equilibrate=True), "W.zarr")
    assert compute_in_waves(job, None, None).waves > 1
    assert same_bits(read("W.zarr"), expected)
    stop_after(4, partial(multiply, "C.h5", chunks=16))
    summary = multiply("C.h5", chunks=16, verify=True)
    assert (summary.resumed >= 4, same_bits(read("C.h5"), expected)) == (True, True)
    # Of whole rows the norms are huge: the check is of the scaled ones.
    assert summary.residual <= summary.residual_bound < 1e-13


def test_updates_have_the_same_bits(stored):
    a, b = stored
    options = {"equilibrate": True, "uplo": "lower"}
    expected = td.her2k(a, b.conj().T, **options)
    update_files(
        td.her2k, "A.npy", "H.zarr", b="BH.zarr", chunks=16, verify=True, **options
    )
    assert same_bits(read("H.zarr"), expected)


def test_no_key_stands_for_two_tasks(client, stored, caplog):  # noqa: F811
    """What a pass has found is held under keys that no task has had."""
    with caplog.at_level("WARNING", "distributed.scheduler"):
        multiply("C.npy", client=client, chunks=16)
        a, b = (da.from_array(x, chunks=20) for x in stored)
        td.explain(td.gemm, a, b)
    assert "run_spec" not in caplog.text
