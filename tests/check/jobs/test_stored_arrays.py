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


@pytest.fixture
def a(here):
    yield make(40, 30, 1)
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_stored_arrays_are_read_by_their_paths(a):
    with h5py.File("A.h5", "w") as file:
        file["g/A"] = a
    remote = FsspecStore.from_url("memory://folder/A.zarr")
    for x in (
        h5py.File("A.h5", "r")["g/A"],
        zarr.create_array("A.zarr", data=a),
        zarr.open_group("G.zarr").create_array("g/A", data=a),
        zarr.create_array(LocalStore("L.zarr"), data=a),
        zarr.create_array(remote, data=a),
    ):
        td.multiply_files(x, x, "C.npy", op_b="C", num_moduli=16, overwrite=True)
        assert same_bits(np.load("C.npy"), td.gemm(a, a, op_b="C", num_moduli=16)), x


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
    for left, output in ((a, "C.npy"), ("A.npy", written["A"])):
        with raises(ArgumentError, "not-a-path"):
            td.update_files(td.herk, left, output)
