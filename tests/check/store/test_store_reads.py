"""Matrices come back bit for bit, and what changes or is damaged is noticed."""

import os
import pickle
import shutil
import zipfile
from contextlib import suppress
from itertools import product
from pathlib import Path

import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from dask.base import tokenize

import twom_dist as td
from tests.support.expect import raises
from tests.support.stored import (
    NAMES,
    assert_same_bits,
    disguise,
    everything,
    make_matrix,
    save,
)
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished, open_matrix, read_vector

pytestmark = pytest.mark.usefixtures("here")


ROWS = [slice(None), slice(1, 3), slice(4, 1), slice(-2, 99)]
COLUMNS = [slice(None), slice(2, 7), slice(3, 3)]
FOREIGN = [("<c16", "C"), ("<c16", "F"), (">c16", "F"), (">f4", "C"), (">i8", "F")]
PAIRS = [("|i1", "C"), ("|u1", "F"), (">i2", "C"), (">i2", "F")]


@pytest.mark.parametrize(("dtype", "order"), FOREIGN + PAIRS)
def test_regions_of_foreign_layouts_become_native(dtype, order):
    """Pairs are read whole, also where chunks have either part alone."""
    pairs = (dtype, order) in PAIRS
    shape, cut = (x[: 2 + pairs] for x in ((5, 7, 2), (2, 4, 1)))
    values = make_matrix(shape, dtype[1:]).astype(dtype, order=order)
    np.save("A.npy", values)
    np.savez("A.npz", values)
    np.savez_compressed("packed.npz", A=values)
    with h5py.File("A.h5", "w") as file:
        file["A"] = values
    native = values.astype(values.dtype.newbyteorder("="))
    save("A.hdf5", native, cut)
    for name, data, form in (("A2.zarr", values, 2), ("A3.zarr", native, 3)):
        zarr.create_array(name, data=data, chunks=cut, zarr_format=form)
    if pairs:
        fields = ",".join([native.dtype.str] * 2)
        native = np.ascontiguousarray(native).view(fields)[..., 0]
    names = ["A.npy", "A.npz", "packed.npz", "A.h5", "A.hdf5", "A2.zarr", "A3.zarr"]
    for matrix in (open_matrix(name, pairs) for name in names):
        for index in product(ROWS, COLUMNS):
            found = np.asarray(matrix[index])
            assert (found.dtype, found.shape) == (native.dtype, native[index].shape)
            assert found.tobytes() == native[index].tobytes()
        assert matrix[:, :].flags.writeable


def test_members_are_found_by_name():
    arrays = {"A": make_matrix(), "g/B": make_matrix((2, 2)), "v": np.zeros(3)}
    np.savez("two.npz", **arrays)
    with h5py.File("two.h5", "w") as file:
        file["gone"] = h5py.SoftLink("/nowhere")
        for name, values in arrays.items():
            file[name] = values
    for form in (2, 3):
        group = zarr.open_group(f"two{form}.zarr", mode="w", zarr_format=form)
        for name, values in arrays.items():
            group.create_array(name, data=values)
    for name in ("two.npz", "two.h5", "two2.zarr", "two3.zarr"):
        for member in ("A", "g/B"):
            assert_same_bits(everything(f"{name}::{member}"), arrays[member])
        with raises(StoreError, "many-matrices"):
            open_matrix(name)
        with raises(StoreError, "matrix-shape"):
            open_matrix(f"{name}::v")
        for member in ("none", "g", "gone"):
            with raises(StoreError, "no-such-member"):
                open_matrix(f"{name}::{member}")


def test_a_member_is_named_as_ours_or_as_zarrs(here):
    save("s.zarr::g/A", make_matrix())
    for name in ("s.zarr/B.npy", "s.zarr/t.zarr"):
        save(name, np.eye(2))
        assert_same_bits(everything(name), np.eye(2))
    for path in ("s.zarr::g/A", "s.zarr/g/A", "s.zarr//g/A/"):
        matrix = open_matrix(path)
        assert (matrix.path, matrix.location.member) == (f"{here}/s.zarr", "g/A")
        assert_same_bits(matrix[:, :], make_matrix())


def test_a_path_leads_where_the_system_says(here, monkeypatch):
    """A link before ".." leads to another folder than its own."""
    os.makedirs("far/inner")
    os.symlink("far/inner", "link")
    for name in ("A.npy", "far/A.npy"):
        save(name, make_matrix((2, 2 + (name == "A.npy"))))
    for path in ("link/../A.npy", f"{here}/link/.././A.npy", "link/../inner/../A.npy"):
        assert open_matrix(path).path == f"{here}/far/A.npy"
        assert_same_bits(everything(path), make_matrix((2, 2)))
    assert find_unfinished("link/../C.npy").location.path == f"{here}/far/C.npy"
    # Nor need workers run in the folder where the client was started.
    save("C.NPZ::x::y", make_matrix())
    matrix = open_matrix("C.NPZ::x::y.npy")
    monkeypatch.chdir("/")
    assert (matrix.path, matrix.location.member) == (f"{here}/C.NPZ", "x::y")
    assert_same_bits(matrix[:, :], make_matrix())


@pytest.mark.parametrize("name", NAMES)
def test_dask_reads_what_was_there_when_it_was_opened(name):
    values = make_matrix((9, 8))
    save(name, values)
    matrix = open_matrix(name)
    assert pickle.loads(pickle.dumps(matrix)) == matrix
    A = da.from_array(matrix, chunks=(4, 3), inline_array=True, asarray=False)
    assert_same_bits(A[2:7].compute(), values[2:7])
    assert tokenize(matrix) == tokenize(open_matrix(name))
    shutil.rmtree(name, ignore_errors=True)
    save(name, make_matrix((3, 3)))
    assert tokenize(matrix) != tokenize(open_matrix(name))
    with raises(StoreError, "matrix-rewritten"):
        matrix[:2, :2]
    shutil.move(name, "away")
    with raises(StoreError, "file-missing"):
        matrix[:1, :1]


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


def test_a_linked_dataset_is_looked_at_where_it_lies():
    save("B.h5", make_matrix())
    with h5py.File("A.h5", "w") as file:
        file["A"] = h5py.ExternalLink("B.h5", "matrix")
    matrix = open_matrix("A.h5::A")
    assert_same_bits(matrix[:, :], make_matrix())
    before = matrix.stamp()
    disguise("B.h5")
    assert matrix.stamp() != before


def test_values_in_other_files_are_refused(here):
    layout = h5py.VirtualLayout((2, 2), "f8")
    layout[:] = h5py.VirtualSource("none.h5", "A", (2, 2))
    raw = [(f"{here}/raw.bin", 0, h5py.h5f.UNLIMITED)]
    with h5py.File("A.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("external", data=np.eye(2), external=raw)
    for name, find in product(("virtual", "external"), (open_matrix, read_vector)):
        with raises(StoreError, "values-elsewhere"):
            find(f"A.h5::{name}")


# --- damage ---------------------------------------------------------------------------


def flip(path, at):
    data = bytearray(Path(path).read_bytes())
    data[at] ^= 1
    Path(path).write_bytes(data)


def test_damage_is_found_when_it_is_read():
    values = make_matrix()
    for name, form, chunk in (("2.zarr", 2, "0.0"), ("3.zarr", 3, "c/0/0")):
        zarr.create_array(name, data=values, chunks=(2, 3), zarr_format=form)
        os.truncate(f"{name}/{chunk}", 40)
        assert_same_bits(open_matrix(name)[2:, :], values[2:, :])
    np.savez_compressed("A.npz", A=np.arange(4e4).reshape(200, 200))
    flip("A.npz", os.path.getsize("A.npz") // 2)
    for name in ("2.zarr", "3.zarr", "A.npz"):
        matrix = open_matrix(name)
        with raises(StoreError, "file-damaged"):
            matrix[:1, :1]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_that_claims_more_than_it_has(compression):
    save("A.npy", np.zeros((200, 200)))
    with zipfile.ZipFile("A.npz", "w", compression) as archive:
        archive.writestr("A.npy", Path("A.npy").read_bytes()[:30_000])
    with raises(StoreError, "file-truncated"):
        open_matrix("A.npz")


# --- what is missing, and where it comes from -----------------------------------------

DOTS = {"name": "default", "separator": "."}
FORMS = [{"zarr_format": 2}, {}, {"shards": (4, 6)}, {"chunk_key_encoding": DOTS}]


@pytest.mark.parametrize("options", FORMS)
def test_chunks_are_counted(options):
    whole = 4 if "shards" in options else 9
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
    paths = "A.zarr", "A.zarr", "C.npy"
    array = zarr.create_array("A.zarr", shape=(4, 6), dtype="c16", chunks=(2, 3))
    with raises(StoreError, "no-chunks"):
        td.multiply_files(*paths, op_b="C")
    array[:] = values
    with raises(StoreError, "missing-chunks"):
        td.multiply_files(*paths, op_b="C", refuse_missing=True)
    assert os.listdir() == ["A.zarr"]
    assert td.multiply_files(*paths, op_b="C").missing == {"A": 1, "B": 1}
    assert np.array_equal(np.load("C.npy"), td.gemm(values, values, op_b="C"))


def test_parts_that_hdf5_lacks_are_counted_or_refused(call):
    with h5py.File("A.h5", "w") as file:
        A = file.create_dataset("A", shape=(4, 6), dtype="f8", chunks=(4, 2))
        A[:, :4] = make_matrix((4, 4), "f8")
        file.create_dataset("whole", shape=(4, 6), dtype="f8")
        file.create_dataset("cut", shape=(4, 6), dtype="f8", chunks=(2, 3))
        file.create_dataset("w", shape=(4,), dtype="f8")
        file.create_dataset("empty", shape=(0, 6), dtype="f8")
    assert '"missing_chunks": 1' in call("info", "A.h5::A", "--json")[1]
    with raises(StoreError, "missing-chunks"):
        td.rank_k_files(td.herk, "A.h5::A", "C.npy", refuse_missing=True)
    done = td.rank_k_files(td.herk, "A.h5::A", "C.npy", num_moduli=16)
    assert done.missing == {"A": 1}
    for name in ("whole", "cut"):
        with raises(StoreError, "no-chunks"):
            td.rank_k_files(td.herk, f"A.h5::{name}", "D.npy")
    with raises(StoreError, "no-chunks"):
        read_vector("A.h5::w")
    assert td.rank_k_files(td.herk, "A.h5::empty", "D.npy").missing == {}


def test_an_output_tells_where_it_comes_from(here):
    save("A.npy", td.testing.random_matrix(4, 4, dtype="float64"))
    for name in ("C.zarr", "C.h5", "C.npy"):
        td.rank_k_files(td.herk, "A.npy", name, alpha=2)
    assert open_matrix("C.npy").provenance() == {}
    for name in ("C.zarr", "C.h5"):
        found = open_matrix(name).provenance()
        made = found["made"]
        assert found["complete"]
        assert (made["routine"], made["alpha"]) == ("herk", "2.0")
        assert found["inputs"]["A"][0] == f"{here}/A.npy"
        assert 0 < found["accuracy"]["error_bound"] < 1e-15
        assert found["versions"]["numpy"] == np.__version__


def test_attributes_of_others_are_no_provenance():
    for name in ("A.zarr", "A.h5"):
        save(name, make_matrix())
    with h5py.File("A.h5", "r+") as file:
        file["matrix"].attrs["twom_dist"] = "not JSON"
    assert open_matrix("A.h5").provenance() == {}
    for held in ({"x": 1}, {"complete": False}, [], "id", None):
        zarr.open_array("A.zarr", mode="r+").attrs["twom_dist"] = held
        assert open_matrix("A.zarr").provenance() == {}
