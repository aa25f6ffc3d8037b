"""Matrices larger than the workers, of arrays that these read and of files."""

import os
import threading
from contextlib import contextmanager

import dask
import dask.array as da
import h5py
import numpy as np
import psutil
import pytest
import zarr

import twom_dist as td
from tests.support.advice import MIB, SIDE, advised, memory_for, room
from tests.support.command import make
from tests.support.expect import raises, same_bits
from tests.support.jobs import addresses, local_workers
from tests.support.workers import start_workers
from twom_dist.errors import ArgumentError, MemoryLimitError, MemoryWarning, StoreError
from twom_dist.store import _matrix, open_matrix


@pytest.fixture
def held():
    with dask.config.set({"twom-dist.inputs": "hold"}):
        yield


@pytest.mark.usefixtures("held")
def test_lazy_products_are_refused_by_the_memory_of_the_workers():
    zeros = da.zeros((SIDE, SIDE), dtype=complex, chunks=500)
    needed = advised(td.herk, MIB, uplo="lower")
    with start_workers(2, memory_limit=needed):
        # That of a triangle is less.
        with pytest.warns(MemoryWarning, match="cannot hold all"):
            td.herk(zeros, uplo="lower")
        with raises(MemoryLimitError, "memory"):
            td.gemm(zeros, zeros, op_b="C")
    small = memory_for(room(advised(td.gemm, MIB)) // 2)
    with start_workers(2, memory_limit=small):
        with raises(MemoryLimitError, "memory") as caught:
            td.gemm(zeros, zeros)
        assert "refuse-memory" in caught.value.remedy
        with (
            dask.config.set({"twom-dist.refuse-memory": False}),
            pytest.warns(MemoryWarning, match="not enough memory") as told,
        ):
            td.gemm(zeros, zeros)
    assert told[0].filename == __file__


def test_workers_read_stored_arrays_that_they_can_open(here, client):
    a, b = td.testing.random_matrix(50, 70), td.testing.random_matrix(70, 40)
    stored = zarr.create_array(here / "A.zarr", data=a, chunks=(8, 9))
    with h5py.File("B.h5", "w") as file:
        file.create_dataset("group/B", data=b, chunks=(10, 10))
    with h5py.File("B.h5", "r") as file, client.as_current():
        found = td.gemm(stored, file["group/B"])
        assert same_bits(client.compute(found).result(), td.gemm(a, b))
        os.rename("B.h5", "elsewhere.h5")
        future = client.compute(td.herk(file["group/B"]))
        with raises(StoreError, "file-not-on-worker"):
            future.result()
        # dask keeps its error, whose traceback has the future, which keeps all tasks.
        future.release()
    assert len(addresses(client)) == 2
    for options in ({"mode": "r+"}, {"mode": "r", "driver": "core"}):
        opened = h5py.File("elsewhere.h5", **options)
        with opened as file, client.as_current(), raises(ArgumentError, "open-file"):
            td.gemm(stored, file["group/B"])


WORKERS = 2
# Of which dask lets 35 MiB be filled with tiles: the interpreter and the libraries take
# more than half, so that a test with much less would be one of them.
LIMIT = 553 * MIB


def count_reads(dask_worker=None):
    """Have this process add up the bytes that it reads of matrices."""
    read, _matrix.bytes_read = _matrix.StoredMatrix.__getitem__, 0

    def counting(self, index):
        values = read(self, index)
        _matrix.bytes_read += values.nbytes
        return values

    _matrix.StoredMatrix.__getitem__ = counting


@contextmanager
def watched(client):
    """Watch the workers of a cluster from outside; yield what is the most."""
    processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
    states, ended = client.cluster.scheduler.workers, threading.Event()
    most = {"process": 0, "tiles": 0, "paused": 0}

    def watch():
        while not ended.wait(0.02):
            memory = (process.memory_info().rss for process in processes)
            most["process"] = max(most["process"], *memory)
            for state in list(states.values()):
                most["tiles"] = max(most["tiles"], state.nbytes)
                most["paused"] += state.status.name == "paused"

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def test_matrices_four_times_the_memory(here):
    m, n, k, options = 4500, 4500, 128, {"num_moduli": 4}
    np.save("A.npy", make(m, k, 1))
    np.save("B.npy", make(k, n, 2))
    with local_workers(WORKERS, memory_limit=LIMIT) as client:
        with client.as_current():
            plan = td.plan(td.multiply_files, "A.npy", "B.npy", **options)
        client.run(count_reads)
        with watched(client) as most:
            given = {"client": client, **options}
            summary = td.multiply_files("A.npy", "B.npy", "C.npy", **given)
        read = sum(client.run(lambda: _matrix.bytes_read).values())
    memory = plan.cluster.memory
    assert (
        sum(os.path.getsize(f"{x}.npy") for x in "ABC")
        > 4 * WORKERS * memory.tile_bytes
    )
    assert summary.waves == plan.waves > 4
    # Waves are about square.
    assert read == plan.total["bytes_read"] <= 1.3 * 16 * k * (m + n) * plan.waves**0.5
    assert most["process"] <= memory.taken_bytes + plan.peak_worker_bytes
    assert most["tiles"] <= plan.peak_worker_bytes
    assert not most["paused"]
    # Any rows of the result are the product of those rows.
    rows = slice(3000, 3032)
    expected = td.gemm(open_matrix("A.npy")[rows, :], np.load("B.npy"), **options)
    assert same_bits(open_matrix("C.npy")[rows, :], expected)
