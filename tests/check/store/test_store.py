"""Matrices come back bit for bit, and a bad file is told from a good one."""

import os
import pickle
from functools import partial
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from numpy.lib import format as npy_format

from tests.support.expect import raises
from tests.support.stored import NAMES, assert_same_bits, everything, make_matrix, save
from twom_dist.errors import ArgumentError, StoreError
from twom_dist.interop.stored import find_path
from twom_dist.store import find_unfinished, open_matrix, read_vector
from twom_dist.store.leftovers import list_leftovers

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<c16", ">c16", ">f4", ">i8"])
def test_foreign_layouts_become_native(dtype, order):
    values = make_matrix(dtype=dtype[1:]).astype(dtype, order=order)
    np.save("A.npy", values)
    np.savez("A.npz", values)
    np.savez_compressed("packed.npz", A=values)
    with h5py.File("A.h5", "w") as file:
        file["A"] = values
    native = values.astype(values.dtype.newbyteorder("="))
    for name, data, form in (("A2.zarr", values, 2), ("A3.zarr", native, 3)):
        zarr.create_array(name, data=data, chunks=(2, 4), zarr_format=form)
    chunks = {"A2.zarr": (2, 4), "A3.zarr": (2, 4)}
    for name in ("A.npy", "A.npz", "packed.npz", "A.h5", *chunks):
        matrix = open_matrix(name)
        assert matrix.chunks == chunks.get(name)
        assert_same_bits(matrix[:, :], values)
        assert_same_bits(matrix[1:4, 2:7], values[1:4, 2:7])
        assert matrix[1:4, 2:7].flags.writeable


def make_containers():
    arrays = {"A": make_matrix(), "g/B": make_matrix((2, 2)), "vector": np.zeros(3)}
    np.savez("two.npz", **{name[-1:]: values for name, values in arrays.items()})
    with h5py.File("two.h5", "w") as file:
        file["gone"] = h5py.SoftLink("/nowhere")
        for name, values in arrays.items():
            file[name] = values
    for form in (2, 3):
        group = zarr.open_group(f"two{form}.zarr", mode="w", zarr_format=form)
        for name, values in arrays.items():
            group.create_array(name, data=values)
    return ["two.npz", "two.h5", "two2.zarr", "two3.zarr"]


def test_members_are_found_by_name():
    for name in make_containers():
        b, vector = ("B", "r") if name == "two.npz" else ("g/B", "vector")
        assert_same_bits(everything(f"{name}::A"), make_matrix())
        assert_same_bits(everything(f"{name}::{b}"), make_matrix((2, 2)))
        with raises(StoreError, "many-matrices"):
            open_matrix(name)
        with raises(StoreError, "matrix-shape"):
            open_matrix(f"{name}::{vector}")
        for member in ("none", "g", "gone"):
            with raises(StoreError, "no-such-member"):
                open_matrix(f"{name}::{member}")


def test_a_store_that_is_an_array_has_no_members():
    save("A.zarr", make_matrix())
    for member in ("A", "g/A"):
        with raises(StoreError, "no-such-member") as caught:
            open_matrix(f"A.zarr::{member}")
        assert "nothing that has a name" in caught.value.problem


@pytest.mark.parametrize("name", NAMES)
def test_regions_of_every_kind(name):
    values = make_matrix()
    save(name, values)
    matrix = open_matrix(name)
    for index in product(
        [slice(1, 3), slice(None, None, -2), slice(4, 1), slice(-2, 99), 2],
        [slice(None), slice(1, 7, 3), slice(3, 3), -1],
    ):
        expected = values[index]
        assert np.asarray(matrix[index]).tobytes() == expected.tobytes()
        assert matrix[index].shape == expected.shape
    for index in [0, slice(3), (0,), (0, 0, 0), ([1, 2], slice(3)), (None, 1)]:
        with raises(ArgumentError, "index"):
            matrix[index]
    with pytest.raises(IndexError):
        matrix[5, 0]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("A.txt", "path-suffix"),
        ("", "path-empty"),
        ("s3://bucket/A.npy", "url-format"),
        ("A.npy::B", "path-member"),
        ("a::b/A\0.npy", "path-zero"),
        ("A.zarr::B\0C", "path-member"),
        ("A.h5::", "path-member"),
        # Not UTF-8: known to be no name before a job has computed all.
        ("A.h5::g/\udcff", "path-member"),
        ("A.h5::B\0C", "path-member"),
        ("s.zarr::../t.zarr", "path-member"),
    ],
)
def test_paths_that_name_no_matrix(path, code):
    for find in (open_matrix, find_unfinished):
        with raises(StoreError, code):
            find(path)


@pytest.mark.parametrize("path", ["data.h5:g/B", "data.h5/g/B", "data.h5:/g/B"])
def test_a_member_in_the_spelling_of_others_is_corrected(path):
    with raises(StoreError, "path-suffix") as caught:
        open_matrix(path)
    assert caught.value.remedy == "Write data.h5::g/B"


@pytest.mark.parametrize("name", ["t.zarr", "t.h5", "t.npz"])
def test_a_container_without_a_matrix_says_what_it_holds(here, name):
    voltage = np.zeros((1, 2, 3, 4))
    if name == "t.zarr":
        zarr.open_group(name, mode="w")["voltage"] = voltage
    elif name == "t.npz":
        np.savez(name, voltage=voltage)
    else:
        with h5py.File(name, "w") as file:
            file["voltage"] = voltage
    with raises(StoreError, "no-matrix") as caught:
        open_matrix(name)
    assert caught.value.problem.endswith("no 2-D array, but 'voltage'")


@pytest.mark.parametrize("path", ["s.zarr::g/A", "s.zarr/g/A", "s.zarr//g/A/"])
def test_a_member_is_named_as_ours_or_as_zarrs(here, path):
    save("s.zarr::g/A", make_matrix())
    for name in ("s.zarr/B.npy", "s.zarr/t.zarr"):
        save(name, np.eye(2))
        assert_same_bits(everything(name), np.eye(2))
    matrix = open_matrix(path)
    assert (matrix.path, matrix.location.member) == (f"{here}/s.zarr", "g/A")
    assert_same_bits(matrix[:, :], make_matrix())


def test_a_file_of_another_kind_is_refused():
    for name in NAMES:
        path = Path(name)
        path.write_text("no matrix")
        with raises(StoreError, "no-matrix" if name == "C.zarr" else "file-damaged"):
            open_matrix(path)
        path.unlink()
        path.mkdir()
        with raises(StoreError, "no-matrix" if name == "C.zarr" else "file-kind"):
            open_matrix(path)
    Path("C.zarr/zarr.json").write_text("{")
    with raises(StoreError, "file-damaged"):
        open_matrix("C.zarr")
    os.symlink("loop.npy", "loop.npy")
    for name, code in (("loop.npy", "file-kind"), ("loop.npy/A.npy", "file-kind")):
        with raises(StoreError, code):
            open_matrix(name)
    Path("file").touch()
    with raises(StoreError, "file-missing"):
        open_matrix("file/A.npy")
    # It would be waited for.
    os.mkfifo("pipe.npy")
    with raises(StoreError, "file-kind"):
        open_matrix("pipe.npy")


@pytest.mark.parametrize("kind", [os.mkfifo, os.mkdir, partial(os.symlink, "none")])
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"zarr_format": 2}, "1.2"),
        ({"zarr_format": 3}, "c/1/2"),
        ({"zarr_format": 3, "chunks": (1, 3), "shards": (2, 3)}, "c/1/2"),
    ],
)
def test_a_chunk_that_is_no_file_is_refused(kind, options, name):
    values = make_matrix()
    zarr.create_array("A.zarr", data=values, **{"chunks": (2, 3), **options})
    matrix, chunk = open_matrix("A.zarr"), Path("A.zarr", name)
    chunk.unlink()
    kind(chunk)
    with raises(StoreError, "file-kind"):
        matrix[:, :]
    with raises(StoreError, "file-kind"):
        matrix[3:4, 6:7]
    assert_same_bits(matrix[2:, :6], values[2:, :6])
    assert_same_bits(matrix[:2, :], values[:2, :])


def test_metadata_that_are_no_file_are_refused():
    save("A.zarr", make_matrix())
    Path("A.zarr/zarr.json").unlink()
    os.mkfifo("A.zarr/zarr.json")
    with raises(StoreError, "file-kind"):
        open_matrix("A.zarr")


def test_a_header_that_no_array_has_is_refused():
    for shape in ((-120, 80), (-120, -80), (120, -1)):
        with open("A.npy", "wb") as stream:
            header = {"descr": "<f8", "fortran_order": False, "shape": shape}
            npy_format.write_array_header_1_0(stream, header)
            stream.write(bytes(120 * 80 * 8))
        with raises(StoreError, "matrix-shape"):
            open_matrix("A.npy")
    save("A.npy", make_matrix())
    data = bytearray(Path("A.npy").read_bytes())
    for version in ((9, 0), (1, 1), (0, 0)):
        data[6:8] = bytes(version)
        Path("A.npy").write_bytes(data)
        with raises(StoreError, "file-damaged"):
            open_matrix("A.npy")


@pytest.mark.parametrize("dtype", ["f2", "g", "G", "M8[s]", "S3", "i4,f8"])
def test_other_dtypes_are_refused(dtype):
    # Each format has dtypes of its own.
    others = {"f2": ["A.h5", "A.zarr"], "M8[s]": []}.get(dtype, ["A.h5"])
    for name in ("A.npy", "A.npz", *others):
        save(name, np.zeros((2, 3), dtype))
        with raises(StoreError, "matrix-dtype"):
            open_matrix(name)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
def test_other_dimensions_are_refused(shape):
    for name in NAMES:
        save(name, np.zeros(shape), "auto")
        alone = name in ("C.npy", "C.zarr")
        with raises(StoreError, "matrix-shape" if alone else "no-matrix"):
            open_matrix(name)


def test_pickled_objects_are_refused_and_not_loaded():
    class Trap:
        def __reduce__(self):
            return Path.touch, (Path("sprung").absolute(),)

    values = np.full((2, 2), Trap())
    np.save("A.npy", values, allow_pickle=True)
    np.savez("A.npz", A=values)
    Path("B.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("A.npy", "A.npz", "B.npy"):
        with raises(StoreError, "file-damaged" if name == "B.npy" else "matrix-dtype"):
            open_matrix(name)
    assert not Path("sprung").exists()


@pytest.mark.parametrize("name", ["C.npy", "C.npz", "C.h5"])
def test_every_truncated_file_is_found_at_once(name):
    save(name, make_matrix())
    whole = Path(name).read_bytes()
    for length in range(0, len(whole), 7):
        Path(name).write_bytes(whole[:length])
        with pytest.raises(StoreError) as caught:
            open_matrix(name)
        assert caught.value.code in ("file-truncated", "file-damaged")


def test_a_path_leads_where_the_system_says(here):
    """A link before ".." leads to another folder than its own."""
    os.makedirs("far/inner")
    os.symlink("far/inner", "link")
    save("A.npy", np.zeros((2, 2)))
    save("far/A.npy", np.eye(2))
    for path in ("link/../A.npy", f"{here}/link/.././A.npy"):
        assert_same_bits(everything(path), np.eye(2))
    assert find_unfinished("link/../C.npy").location.path == f"{here}/far/C.npy"
    os.mkdir("far/.C.npy.unfinished")
    assert len(list_leftovers("link/..")) == 1
    with h5py.File("far/A.h5", "w") as file:
        file["A"] = np.eye(2)
    with h5py.File("link/../A.h5") as file:
        assert find_path(file["A"], "A") == f"{here}/far/A.h5::A"
    # What a link leads to is not told in its place.
    assert open_matrix("link/../inner/../A.npy").path == f"{here}/far/A.npy"


def test_a_working_directory_that_has_gone_is_told(here):
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir(here / "gone")
    for path in ("A.npy", "../A.npy"):
        with raises(StoreError, "no-folder"):
            open_matrix(path)
    save(here / "A.npy", np.eye(2))
    assert_same_bits(everything(here / "A.npy"), np.eye(2))


def test_a_store_that_may_not_be_looked_into_is_not_taken_for_none(monkeypatch):
    save("A.zarr", np.eye(2))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may do anything
    for find in (open_matrix, read_vector):
        with raises(StoreError, "no-permission"):
            find("A.zarr")
