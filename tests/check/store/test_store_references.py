"""What HDF5 files refer to: it is there, whole and a file, or the matrix is refused."""

import os

import h5py
import pytest

import twom_dist as td
from tests.support.expect import raises
from tests.support.stored import (
    assert_same_bits,
    disguise,
    make_matrix,
    save,
)
from twom_dist.errors import StoreError
from twom_dist.store import open_matrix, read_vector

pytestmark = pytest.mark.usefixtures("here")
VALUES = make_matrix((4, 6), "f8")
FULL = slice(None)


def make_virtual(path, *sources, rows=(FULL,), name="A"):
    """Make a virtual matrix whose rows come from others, given by file and name."""
    layout = h5py.VirtualLayout((4, 6), "f8")
    for source, part in zip(sources, rows, strict=True):
        layout[part] = h5py.VirtualSource(*source, (4, 6))[part]
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset(name, layout)


def test_a_virtual_matrix_of_itself_is_refused():
    make_virtual("own.h5", (".", "alias"))
    make_virtual("one.h5", ("two.h5", "A"))
    make_virtual("two.h5", ("./one.h5", "/A"))
    with h5py.File("own.h5", "a") as file:
        file["alias"] = file["A"]
    for path in ("own.h5", "one.h5"):
        for find in (open_matrix, read_vector):
            with raises(StoreError, "source-cycle"):
                find(f"{path}::A")


@pytest.fixture
def virtual(here):
    """Store a matrix that is linked, and whose rows are virtual, in other files."""
    os.mkdir("parts")
    save("parts/top.h5", VALUES[:2])
    with h5py.File("parts/low.h5", "w") as file:
        file["matrix"] = VALUES[2:]
    layout = h5py.VirtualLayout((4, 6), "f8")
    for rows, name in ((slice(2), "top"), (slice(2, 4), "low")):
        layout[rows] = h5py.VirtualSource(f"parts/{name}.h5", "matrix", (2, 6))
    with h5py.File("V.h5", "w") as file:
        file.create_virtual_dataset("A", layout)
    with h5py.File("A.h5", "w") as file:
        file["linked"] = h5py.ExternalLink("V.h5", "A")
    return "A.h5::linked"


@pytest.mark.parametrize("part", ["V.h5", "parts/top.h5", "parts/low.h5"])
def test_all_that_hdf5_refers_to_belongs_to_the_matrix(virtual, part):
    matrix = open_matrix(virtual)
    assert_same_bits(matrix[:, :], VALUES)
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


def test_a_virtual_source_must_be_in_its_file(virtual):
    make_virtual("V.h5", (".", "A"), name="A2")
    open_matrix("V.h5::A2")
    with h5py.File("parts/top.h5", "r+") as file:
        file.move("matrix", "other")
    # Also where it is the source of a source.
    for path in (virtual, "V.h5::A2"):
        with raises(StoreError, "source-missing"):
            open_matrix(path)


def test_external_storage_is_refused(here):
    raw = [(f"{here}/raw.bin", 0, h5py.h5f.UNLIMITED)]
    with h5py.File("A.h5", "w") as file:
        file.create_dataset("A", data=VALUES, external=raw)
    with raises(StoreError, "external-storage"):
        open_matrix("A.h5")


def make_lacking(kind):
    """Make a matrix that lacks one part of three, which HDF5 reads as zeros."""
    with h5py.File("A.h5", "w") as file:
        if kind == "chunks":
            A = file.create_dataset("A", shape=(4, 6), dtype="f8", chunks=(4, 2))
            A[:, :4] = VALUES[:, :4]
        if kind == "sources":
            file["top"], file["low"] = VALUES[:2], VALUES[2:]
            layout = h5py.VirtualLayout((4, 6), "f8")
            layout[:2] = h5py.VirtualSource("A.h5", "top", (2, 6))
            layout[2:, ::2] = h5py.VirtualSource("A.h5", "low", (2, 6))[:, ::2]
            file.create_virtual_dataset("A", layout)
    if kind == "shrunk":
        make_virtual("A.h5", *[("B.h5", "B")] * 2, rows=(slice(2), slice(2, 4)))
        with h5py.File("B.h5", "w") as file:
            file.create_dataset("B", data=VALUES, chunks=(2, 6), maxshape=(4, 6))
            file["B"].resize((2, 6))


@pytest.mark.parametrize("kind", ["chunks", "sources", "shrunk"])
def test_what_hdf5_lacks_is_counted_or_refused(kind, call):
    make_lacking(kind)
    assert '"missing_chunks": 1' in call("info", "A.h5::A", "--json")[1]
    with raises(StoreError, "missing-chunks"):
        td.update_files(td.herk, "A.h5::A", "C.npy", refuse_missing=True)
    done = td.update_files(td.herk, "A.h5::A", "C.npy", num_moduli=16)
    assert done.missing == {"A": 1}


def test_a_matrix_without_any_part_is_refused():
    with h5py.File("A.h5", "w") as file:
        file.create_dataset("whole", shape=(4, 6), dtype="f8")
        file.create_dataset("cut", shape=(4, 6), dtype="f8", chunks=(2, 3))
        file.create_dataset("w", shape=(4,), dtype="f8")
        file.create_virtual_dataset("none", h5py.VirtualLayout((4, 6), "f8"))
        file.create_dataset("empty", shape=(0, 6), dtype="f8")
    for name in ("whole", "cut", "none"):
        with raises(StoreError, "no-chunks"):
            td.update_files(td.herk, f"A.h5::{name}", "C.npy")
    with raises(StoreError, "no-chunks"):
        read_vector("A.h5::w")
    assert td.update_files(td.herk, "A.h5::empty", "C.npy").missing == {}
