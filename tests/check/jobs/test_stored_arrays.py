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
from twom_dist.interop.stored import find_path


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


def test_stored_arrays_are_read_by_their_paths(a, here):
    expected = td.herk(a)
    for number, x in enumerate(stored(a)):
        place = find_path(x, "A")
        assert place.startswith((str(here), "memory:///folder"))
        summary = td.update_files(td.herk, x, f"C{number}.npy", num_moduli=16)
        assert same_bits(np.load(f"C{number}.npy"), td.herk(a, num_moduli=16)), place
        assert summary.routine == "herk"
        one = td.multiply_files(x, x, f"D{number}.npy", op_b="C")
        assert one.shape == (40, 40, 30)
        assert np.allclose(np.load(f"D{number}.npy"), expected)


def test_arrays_that_no_other_process_can_read_are_refused(a):
    written = h5py.File("W.h5", "w")
    in_memory = h5py.File("M.h5", "w", driver="core", backing_store=False)
    for file in (written, in_memory):
        file["A"] = a
    for x in (written["A"], in_memory["A"], zarr.array(a)):
        with raises(ArgumentError, "open-file"):
            td.update_files(td.herk, x, "C.npy")
    for x, code in [(a, "not-a-path"), (3, "not-a-path"), (written, "not-a-matrix")]:
        with raises(ArgumentError, code) as caught:
            td.multiply_files("A.npy", x, "C.npy")
        assert caught.value.problem.startswith("B is a ")
    with raises(ArgumentError, "not-a-path") as caught:
        td.update_files(td.zherk, a, "C.npy")
    assert "td.herk" in caught.value.remedy
    with raises(ArgumentError, "not-a-path") as caught:
        np.save("A.npy", a)
        td.update_files(td.herk, "A.npy", written["A"])
    assert "which takes arrays" not in caught.value.remedy
