"""Arrays of zarr and h5py as inputs of jobs: by their paths, or refused."""

import h5py
import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem
from zarr.storage import FsspecStore, LocalStore

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import make
from tests.support.expect import raises
from twom_dist.errors import ArgumentError


def stored(values):
    """Store a matrix in ways that other processes can open."""
    with h5py.File("A.h5", "w") as file:
        file["g/A"] = values
    yield h5py.File("A.h5", "r")["g/A"]
    yield zarr.create_array("A.zarr", data=values)
    yield zarr.open_group("G.zarr").create_array("g/A", data=values)
    yield zarr.create_array(LocalStore("L.zarr"), data=values)
    store = FsspecStore.from_url("memory://folder/A.zarr")
    yield zarr.create_array(store, data=values)


@pytest.fixture
def a(here):
    yield make(40, 30, 1)
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_stored_arrays_are_read_by_their_paths(a):
    expected = td.herk(a, num_moduli=16)
    for number, x in enumerate(stored(a)):
        td.update_files(td.herk, x, f"C{number}.npy", num_moduli=16)
        assert same_bits(np.load(f"C{number}.npy"), expected), x
        td.multiply_files(x, x, f"D{number}.npy", op_b="C", num_moduli=16)
        assert np.allclose(np.load(f"D{number}.npy"), expected), x


def test_arrays_that_no_other_process_can_read_are_refused(a):
    written = h5py.File("W.h5", "w")
    in_memory = h5py.File("M.h5", "w", driver="core", backing_store=False)
    for file in (written, in_memory):
        file["A"] = a
    np.save("A.npy", a)
    for x, code in (
        *((x, "open-file") for x in (written["A"], in_memory["A"], zarr.array(a))),
        *((a, "not-a-path"), (3, "not-a-path"), (written, "not-a-matrix")),
    ):
        with raises(ArgumentError, code):
            td.multiply_files("A.npy", x, "C.npy")
    with raises(ArgumentError, "not-a-path") as caught:
        td.update_files(td.zherk, a, "C.npy")
    assert "td.herk" in caught.value.remedy
    with raises(ArgumentError, "not-a-path") as caught:
        td.update_files(td.herk, "A.npy", written["A"])
    assert "which takes arrays" not in caught.value.remedy
