"""Inputs of jobs: read once where all fit, beside tasks that multiply them."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.run.workers.test_placement_on_workers import (
    forget_transfers,
    read_transfers,
    start_workers,
)
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.command import make, read
from tests.support.jobs import IN_PROCESS, addresses, task_names, wait_until
from twom_dist.api.files import multiply_files, update_files
from twom_dist.errors import StoreError
from twom_dist.jobs import Run
from twom_dist.jobs.disk import LEAST_BYTES, at_disk
from twom_dist.plan import tiling
from twom_dist.plan.waves import cut_rectangle
from twom_dist.store import StoredMatrix

TILE, K = 64, 4 * 64


@pytest.fixture(scope="module")
def client():
    with start_workers(4) as cluster, Client(cluster, set_as_default=False) as made:
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


def held_keys(client):
    return [key for keys in client.has_what().values() for key in keys]


CALLS = {
    "gemm": lambda **x: multiply_files("A.npy", "B.npy", "C.zarr", chunks=TILE, **x),
    "transposed": lambda **x: multiply_files(
        "A.npy", "T.npy", "C.zarr", op_b="T", chunks=TILE, **x
    ),
    "herk": lambda **x: update_files(td.herk, "A.npy", "C.zarr", chunks=TILE, **x),
}


@pytest.mark.parametrize("name", CALLS)
@sample("alone", [False, True], [False])
def test_each_tile_is_read_once_where_it_is_multiplied(
    client, reads, monkeypatch, name, alone
):
    runs, plain = [], Run.settle

    def settle(self, found):
        runs.append(self)
        return plain(self, found)

    monkeypatch.setattr(Run, "settle", settle)
    client.run(forget_transfers)
    summary = CALLS[name](client=None if alone else client)
    assert summary.waves == 1
    assert set(reads.values()) == {6 * TILE * K * 16}
    a, b = np.load("A.npy"), np.load("B.npy")
    expected = td.herk(a) if name == "herk" else td.gemm(a, b)
    assert same_bits(read("C.zarr"), expected)
    if not alone:
        (run,) = runs
        (wave,) = run.layout.waves
        planned = run.layout.plan(wave, run.cluster).bytes_moved
        moved = [x for log in client.run(read_transfers).values() for x in log]
        tiles = sum(size for key, size in moved if key[0].startswith("read-"))
        assert 0 < tiles <= planned
        wait_until(
            lambda: not task_names(client) and not any(client.has_what().values())
        )


def test_what_the_moduli_leave_no_room_for_is_read_again(client, reads, monkeypatch):
    """Then tiles that were held for the look are forgotten."""
    plain, layouts = Run.settle, []

    def settle(self, found):
        new = plain(self, found)
        layout = replace(new.layout, waves=tuple(cut_rectangle(6, 6, 3, 6)))
        layouts.append(layout)
        return replace(new, layout=layout)

    monkeypatch.setattr(Run, "settle", settle)
    summary = CALLS["gemm"](client=client)
    assert summary.waves == 2
    # What two waves need of B may still be there from the first one.
    size = 6 * TILE * K * 16
    assert reads["A.npy"] == 2 * size <= reads["B.npy"]
    assert same_bits(read("C.zarr"), td.gemm(np.load("A.npy"), np.load("B.npy")))


@pytest.mark.parametrize("alone", [False, True])
def test_a_read_that_fails_is_told_and_nothing_stays(client, reads, monkeypatch, alone):
    def fail(*_):
        raise StoreError("the disk is gone", "Find it", "disk-gone")

    monkeypatch.setattr("twom_dist.jobs.reading.bring", fail)
    with pytest.raises(StoreError, match="the disk is gone"):
        CALLS["gemm"](client=None if alone else client)
    wait_until(lambda: not held_keys(client))


# The workers are threads of this process.
EVENTS = {"first": Event(), "second": Event()}


def wait_at_disk(name):
    with at_disk(LEAST_BYTES):
        return EVENTS[name].wait(30)


def test_a_worker_of_one_thread_computes_while_a_task_is_at_the_disk(client):
    with client.as_current():
        worker = addresses(client)[0]
        waiting = client.submit(wait_at_disk, "first", workers=[worker], pure=False)
        # No other task has a place at the disk: it keeps the thread.
        second = client.submit(wait_at_disk, "second", workers=[worker], pure=False)
        wait_until(lambda: second.key in client.processing()[worker])
        late = client.submit(abs, -1, workers=[worker], pure=False)
        EVENTS["second"].set()
        assert (second.result(30), late.result(30)) == (True, 1)
        assert not waiting.done()
        EVENTS["first"].set()
        assert waiting.result(30)


def test_threads_of_other_executors_stay_where_they_are(here):
    """A worker that is given one of the standard library cannot let tasks leave."""
    with (
        ThreadPoolExecutor(2) as executor,
        LocalCluster(n_workers=1, **IN_PROCESS, executor=executor) as cluster,
        Client(cluster) as client,
    ):
        assert client.submit(leave_twice).result(30)


def leave_twice():
    for _ in range(2):
        with at_disk(LEAST_BYTES):
            pass
    return True


def test_a_task_leaves_its_thread_once(client):
    assert client.submit(leave_twice).result(30)
