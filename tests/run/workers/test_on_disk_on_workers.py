"""zarr arrays and HDF5 datasets that the workers of a client read."""

import os

import h5py
import pytest
import zarr
from zarr.storage import MemoryStore

import twom_dist as td
import twom_dist.interop.stored
from tests.support.expect import raises
from tests.support.jobs import addresses, local_workers
from twom_dist.errors import ArgumentError, StoreError

A, B = td.testing.random_matrix(50, 70), td.testing.random_matrix(70, 40)


@pytest.fixture
def stored(here, monkeypatch):
    monkeypatch.setattr(td.interop.stored, "LARGEST_TILE", 32)
    with h5py.File("B.h5", "w") as file:
        file.create_dataset("group/B", data=B, chunks=(10, 10))
    return zarr.create_array(here / "A.zarr", data=A, chunks=(8, 9))


def test_workers_read_what_they_multiply(stored, client):
    with h5py.File("B.h5", "r") as file, client.as_current():
        found = td.gemm(stored, file["group/B"])
        assert found.npartitions == 4
        assert client.compute(found).result().tobytes() == td.gemm(A, B).tobytes()
        update = td.herk(file["group/B"])
        assert client.compute(update).result().tobytes() == td.herk(B).tobytes()


def test_files_that_workers_cannot_open_are_refused(stored, client):
    for options in ({"mode": "r+"}, {"mode": "r", "driver": "core"}):
        opened = h5py.File("B.h5", **options)
        with opened as file, client.as_current(), raises(ArgumentError, "open-file"):
            td.gemm(stored, file["group/B"])


def test_a_file_that_is_gone_fails_the_task_and_no_worker(stored, client):
    with h5py.File("B.h5", "r") as file:
        found = td.gemm(stored, file["group/B"])
        os.rename("B.h5", "elsewhere.h5")
        future = client.compute(found)
        with raises(StoreError, "file-not-on-worker"):
            future.result()
        # dask keeps its error, whose traceback has the future, which keeps all tasks.
        future.release()
    assert len(addresses(client)) == 2


def test_tiles_fit_the_workers():
    options = {"shape": (40_000, 2500), "chunks": (200, 100), "dtype": "c16"}
    large = zarr.create_array(MemoryStore(), **options)
    free = td.herk(large, op="C", num_moduli=16)
    with local_workers(2, memory_limit="600 MiB") as client, client.as_current():
        for product in (
            td.herk(large, op="C", num_moduli=16),
            td.gemm(large, large, op_a="T", num_moduli=16),
        ):
            assert 256 <= product.chunksize[0] < free.chunksize[0]
