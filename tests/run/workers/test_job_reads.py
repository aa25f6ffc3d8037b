"""Inputs of jobs: read once where all fit, beside tasks that multiply and write."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event

import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.command import make, read, save
from tests.support.jobs import (
    IN_PROCESS,
    TILES,
    addresses,
    multiply,
    stop_after,
    task_names,
    wait_until,
)
from tests.support.workers import forget_transfers, read_transfers, start_workers
from twom_dist.errors import StoreError
from twom_dist.jobs import Run
from twom_dist.jobs.disk import LEAST_BYTES, at_disk
from twom_dist.plan import tiling
from twom_dist.plan.waves import cut_rectangle
from twom_dist.store import StoredMatrix

TILE, K = 64, 4 * 64
SIZE = 6 * TILE * K * 16


@pytest.fixture(scope="module")
def four():
    with start_workers(4, default=False) as made:
        yield made


@pytest.fixture
def reads(here, monkeypatch):
    """Write A (m, k), B (k, n) and B^T, and count the bytes read of each."""
    np.save("A.npy", make(6 * TILE, K, 1))
    np.save("B.npy", make(K, 6 * TILE, 2))
    np.save("T.npy", np.load("B.npy").T)
    monkeypatch.setattr(tiling, "HELD_BYTES", 0)
    counts, plain = Counter(), StoredMatrix.__getitem__

    def counting(self, index):
        found = plain(self, index)
        counts[os.path.basename(self.path)] += found.nbytes
        return found

    monkeypatch.setattr(StoredMatrix, "__getitem__", counting)
    return counts


@pytest.fixture
def runs(monkeypatch):
    """List the runs of a test, after their look."""
    found, plain = [], Run.settle

    def settle(self, look):
        found.append(self)
        return plain(self, look)

    monkeypatch.setattr(Run, "settle", settle)
    return found


GEMM = partial(td.multiply_files, "A.npy", "B.npy", "C.zarr", chunks=TILE)
CALLS = {
    "gemm": GEMM,
    "transposed": partial(
        td.multiply_files, "A.npy", "T.npy", "C.zarr", op_b="T", chunks=TILE
    ),
    "herk": partial(td.update_files, td.herk, "A.npy", "C.zarr", chunks=TILE),
}


@pytest.mark.parametrize("name", CALLS)
@sample("alone", [False, True], [False])
def test_each_tile_is_read_once_where_it_is_multiplied(four, reads, runs, name, alone):
    four.run(forget_transfers)
    summary = CALLS[name](client=None if alone else four)
    assert summary.waves == 1
    assert set(reads.values()) == {SIZE}
    a, b = np.load("A.npy"), np.load("B.npy")
    expected = td.herk(a) if name == "herk" else td.gemm(a, b)
    assert same_bits(read("C.zarr"), expected)
    if not alone:
        (run,) = runs
        (wave,) = run.layout.waves
        planned = run.layout.plan(wave, run.cluster).bytes_moved
        moved = [x for log in four.run(read_transfers).values() for x in log]
        tiles = sum(size for key, size in moved if key[0].startswith("read-"))
        assert 0 < tiles <= planned
        wait_until(lambda: not task_names(four) and not any(four.has_what().values()))


def test_what_the_moduli_leave_no_room_for_is_read_again(four, reads, monkeypatch):
    """Then tiles that were held for the look are forgotten."""
    plain = Run.settle

    def settle(self, found):
        new = plain(self, found)
        layout = replace(new.layout, waves=tuple(cut_rectangle(6, 6, 3, 6)))
        return replace(new, layout=layout)

    monkeypatch.setattr(Run, "settle", settle)
    assert GEMM(client=four).waves == 2
    # What two waves need of B may still be there from the first one.
    assert reads["A.npy"] == 2 * SIZE <= reads["B.npy"]
    assert same_bits(read("C.zarr"), td.gemm(np.load("A.npy"), np.load("B.npy")))


@pytest.mark.parametrize("alone", [False, True])
def test_a_read_that_fails_is_told_and_nothing_stays(four, reads, monkeypatch, alone):
    def fail(*_):
        raise StoreError("the disk is gone", "Find it", "disk-gone")

    monkeypatch.setattr("twom_dist.jobs.reading.bring", fail)
    with pytest.raises(StoreError, match="the disk is gone"):
        GEMM(client=None if alone else four)
    wait_until(lambda: not any(four.has_what().values()))


# --- k that workers share -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_workers_of_a_job_share_k(client, here, runs):
    a = make(500, 24, 1)
    save("A.zarr", a)
    tall = partial(td.update_files, td.herk, "A.zarr", op="C", chunks=16)
    job = partial(tall, client=client)
    summary = job("H.zarr", verify=True)
    assert len(runs[0].layout.grid.layers) == 2
    assert summary.residual <= summary.residual_bound
    expected = td.herk(a, op="C")
    assert same_bits(read("H.zarr"), expected)
    stop_after(1, lambda **x: job("K.npy", **x))
    assert job("K.npy").resumed >= 1
    assert same_bits(read("K.npy"), expected)
    # Alone, and so along another tree.
    tall("L.npy")
    assert same_bits(read("L.npy"), expected)
    # One that is native keeps its order.
    options = {"op_a": "C", "chunks": 16, "method": "blas", "client": client}
    td.multiply_files("A.zarr", "A.zarr", "B.npy", **options)
    assert len(runs[-1].layout.grid.parts) == 1
    assert np.allclose(np.load("B.npy"), expected)


# --- tasks ----------------------------------------------------------------------------


def stage_of(key):
    """Return ``twom-product`` of ("twom-product-<token>", i, j): not of fused tasks."""
    return key[0].rpartition("-")[0] if isinstance(key, tuple) else str(key)


class Notes(SchedulerPlugin):
    """Notes the tasks that are done, in order."""

    name = "notes"

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.done, self.unplaced, self.waited_for = [], [], set()

    def transition(self, key, start, finish, *args, **kwargs):
        if finish != "memory":
            return
        stage, task = stage_of(key), self.scheduler.tasks[key]
        self.done.append(stage)
        if stage == "twom-write":
            self.waited_for |= {stage_of(x.key) for x in task.dependencies}
        placed = task.worker_restrictions and task.loose_restrictions
        if stage == "twom-product" and not placed:
            self.unplaced.append(key)


@pytest.fixture
def notes(client):
    scheduler = client.cluster.scheduler
    made = Notes(scheduler)
    scheduler.add_plugin(made)
    yield made
    scheduler.remove_plugin(made.name)


def test_tiles_are_written_while_others_are_computed(client, here, notes):
    """Else a job that is stopped early keeps nothing."""
    # The tiles are so many that the first answers of the scheduler hardly count.
    save("A.npy", make(256, 32, 1))
    job = partial(td.update_files, td.herk, "A.npy", "C.zarr", chunks=16)
    assert job(client=client).waves == 1
    # Which dask has not fused with what follows.
    assert notes.done.count("twom-product") == notes.done.count("twom-write") == 136
    first = notes.done.index("twom-write")
    assert notes.done[:first].count("twom-product") < 136 / 4
    # A tile alone: what many of them wait for may be late.
    assert notes.waited_for == {"twom-update"}
    assert notes.unplaced == []


@pytest.mark.parametrize("alone", [False, True])
def test_many_tiles_are_told_of_in_groups(client, files, notes, monkeypatch, alone):
    monkeypatch.setattr("twom_dist.jobs.tiles.MOST_ENDS", 7)
    seen = []
    multiply(client=None if alone else client, progress=seen.append)
    assert [p.done for p in seen] == list(range(1, TILES + 1))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert alone or "twom-written" in notes.done
    # dask has fused no product with what follows.
    assert not any("-twom-" in stage for stage in notes.done)


# --- threads --------------------------------------------------------------------------

# The workers are threads of this process.
EVENTS = {"first": Event(), "second": Event()}


def wait_at_disk(name):
    with at_disk(LEAST_BYTES):
        return EVENTS[name].wait(30)


def leave_twice():
    for _ in range(2):
        with at_disk(LEAST_BYTES):
            pass
    return True


def test_a_worker_of_one_thread_computes_while_a_task_is_at_the_disk(four):
    with four.as_current():
        worker = addresses(four)[0]
        waiting = four.submit(wait_at_disk, "first", workers=[worker], pure=False)
        # No other task has a place at the disk: it keeps the thread.
        second = four.submit(wait_at_disk, "second", workers=[worker], pure=False)
        wait_until(lambda: second.key in four.processing()[worker])
        late = four.submit(abs, -1, workers=[worker], pure=False)
        EVENTS["second"].set()
        assert (second.result(30), late.result(30)) == (True, 1)
        assert not waiting.done()
        EVENTS["first"].set()
        assert waiting.result(30)
        # A task leaves its thread once.
        assert four.submit(leave_twice).result(30)


def test_threads_of_other_executors_stay_where_they_are(here):
    """A worker that is given one of the standard library cannot let tasks leave."""
    with (
        ThreadPoolExecutor(2) as executor,
        LocalCluster(n_workers=1, **IN_PROCESS, executor=executor) as cluster,
        Client(cluster) as client,
    ):
        assert client.submit(leave_twice).result(30)
