"""What a stored matrix is: what it refers to, what it lacks, where it comes from."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from dask.base import tokenize

import twom_dist as td
from tests.support.expect import raises
from tests.support.stored import NAMES, disguise, make_matrix, save, write_output
from twom_dist.errors import StoreError
from twom_dist.store import open_matrix
from twom_dist.store._tree import stamp_file

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def virtual(here):
    """Store a matrix whose rows are virtual, linked and external, in other files."""
    values = make_matrix((4, 6), "f8")
    os.mkdir("parts")
    save("parts/top.h5", values[:2])
    with h5py.File("parts/low.h5", "w") as file:
        raw = [(f"{here}/raw.bin", 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("matrix", data=values[2:], external=raw)
    layout = h5py.VirtualLayout((4, 6), "f8")
    layout[:2] = h5py.VirtualSource("parts/top.h5", "matrix", (2, 6))
    layout[2:] = h5py.VirtualSource("parts/low.h5", "matrix", (2, 6))
    with h5py.File("V.h5", "w") as file:
        file.create_virtual_dataset("A", layout)
    with h5py.File("A.h5", "w") as file:
        file["linked"] = h5py.ExternalLink("V.h5", "A")
    return "A.h5::linked"


@pytest.mark.parametrize("part", ["V.h5", "parts/top.h5", "parts/low.h5", "raw.bin"])
def test_all_that_hdf5_refers_to_belongs_to_the_matrix(virtual, part):
    matrix = open_matrix(virtual)
    assert matrix[:, :].tobytes() == make_matrix((4, 6), "f8").tobytes()
    before = matrix.stamp()
    disguise(part)
    after = matrix.stamp()
    assert after != before
    os.utime(part, ns=(1, 1))
    assert matrix.stamp() not in (before, after)
    os.unlink(part)
    # HDF5 itself finds that a linked file is missing.
    with raises(StoreError, "no-such-member" if part == "V.h5" else "source-missing"):
        open_matrix(virtual)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_same_size_and_time_is_another_one(name):
    save(name, make_matrix())
    matrix = open_matrix(name)
    before = matrix.stamp()
    disguise(f"{name}/c/1/2" if name == "C.zarr" else name)
    assert matrix.stamp() != before
    # Nor is it read by a task that has the name of another one.
    disguise(f"{name}/zarr.json" if name == "C.zarr" else name)
    with suppress(StoreError):  # what is not JSON any more
        assert tokenize(open_matrix(name)) != tokenize(matrix)


def test_a_virtual_source_must_be_in_its_file(virtual):
    layout = h5py.VirtualLayout((4, 6), "f8")
    layout[:] = h5py.VirtualSource(".", "A", (4, 6))
    with h5py.File("V.h5", "r+") as file:
        file.create_virtual_dataset("A2", layout)
    open_matrix("V.h5::A2")
    with h5py.File("parts/top.h5", "r+") as file:
        file.move("matrix", "other")
    # Also where it is the source of a source.
    for path in (virtual, "V.h5::A2"):
        with raises(StoreError, "source-missing"):
            open_matrix(path)


DOTS = {"name": "default", "separator": "."}


@pytest.mark.parametrize(
    ("options", "whole"),
    [
        ({"zarr_format": 2}, 9),
        ({"zarr_format": 3}, 9),
        ({"zarr_format": 3, "shards": (4, 6)}, 4),
        ({"zarr_format": 3, "chunk_key_encoding": DOTS}, 9),
    ],
)
def test_chunks_are_counted(options, whole):
    options = {"shape": (5, 7), "chunks": (2, 3), "fill_value": 3, **options}
    array = zarr.create_array("A.zarr", dtype="c16", **options)
    matrix = open_matrix("A.zarr")
    assert matrix.count_chunks() == (0, whole)
    assert np.array_equal(matrix[:, :], np.full((5, 7), 3))
    array[:2, :3] = 1
    assert matrix.count_chunks() == (1, whole)
    array[:] = 1
    # Not by their number alone.
    Path("A.zarr", "c.9.0").touch()
    assert matrix.count_chunks() == (whole, whole)


def test_missing_chunks_are_told_or_refused():
    values = td.testing.random_matrix(4, 6)
    values[:2, :3] = 0
    multiply = partial(td.multiply_files, "A.zarr", "A.zarr", "C.npy", op_b="C")
    array = zarr.create_array("A.zarr", shape=(4, 6), dtype="c16", chunks=(2, 3))
    with raises(StoreError, "no-chunks"):
        multiply()
    array[:] = values
    with raises(StoreError, "missing-chunks"):
        multiply(refuse_missing=True)
    assert os.listdir() == ["A.zarr"]
    assert multiply().missing == {"A": 1, "B": 1}
    assert np.array_equal(np.load("C.npy"), td.gemm(values, values, op_b="C"))


def test_an_output_tells_where_it_comes_from(here):
    save("A.npy", td.testing.random_matrix(4, 4, dtype="float64"))
    for name in ("C.zarr", "C.h5", "C.npy"):
        td.update_files(td.herk, "A.npy", name, alpha=2)
    assert open_matrix("C.npy").provenance() == {}
    for name in ("C.zarr", "C.h5"):
        found = open_matrix(name).provenance()
        made = found["made"]
        assert found["complete"]
        assert (made["routine"], made["alpha"]) == ("herk", "2.0")
        assert found["inputs"]["A"][0] == f"{here}/A.npy"
        assert 0 < found["accuracy"]["error_bound"] < 1e-15
        assert found["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize("name", ["C.npy", "C.zarr"])
def test_what_is_replaced_hands_on_its_permissions(name):
    save(name, make_matrix())
    os.chmod(name, 0o750 if name == "C.zarr" else 0o640)
    mode = os.stat(name).st_mode
    write_output(name, np.eye(4), overwrite=True)
    assert os.stat(name).st_mode == mode


def test_an_object_that_was_only_read_is_the_same(monkeypatch):
    """Some stores tell when it was read last."""
    from fsspec.implementations.memory import MemoryFileSystem

    path, looks, info = "memory://A.bin", iter(range(9)), MemoryFileSystem.info
    MemoryFileSystem().pipe("/A.bin", b"some")

    def told(self, path, **options):
        return info(self, path, **options) | {"time": next(looks)}

    monkeypatch.setattr(MemoryFileSystem, "info", told)
    assert stamp_file(path) == stamp_file(path)
    MemoryFileSystem().rm("/A.bin")
