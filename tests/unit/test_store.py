"""Matrices come back bit for bit, and a bad file is told from a good one."""

import os
import pickle
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from tests.expect import raises
from tests.stored import NAMES, assert_same_bits, everything, make_matrix, save
from twom_dist.errors import ArgumentError, StoreError
from twom_dist.store import find_unfinished, open_matrix


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<c16", ">c16", ">f4", ">i8"])
def test_foreign_layouts_become_native(tmp_path, dtype, order):
    values = make_matrix(dtype=dtype[1:]).astype(dtype, order=order)
    np.save(tmp_path / "A.npy", values)
    np.savez(tmp_path / "A.npz", values)
    np.savez_compressed(tmp_path / "packed.npz", A=values)
    with h5py.File(tmp_path / "A.h5", "w") as file:
        file["A"] = values
    for form in (2, 3):
        array = zarr.create_array(
            tmp_path / f"A{form}.zarr",
            shape=values.shape,
            chunks=(2, 4),
            dtype=dtype if form == 2 else np.dtype(dtype).newbyteorder("="),
            zarr_format=form,
        )
        array[:] = values
    chunks = {"A2.zarr": (2, 4), "A3.zarr": (2, 4)}
    for name in ("A.npy", "A.npz", "packed.npz", "A.h5", *chunks):
        matrix = open_matrix(tmp_path / name)
        assert matrix.chunks == chunks.get(name)
        assert_same_bits(matrix[:, :], values)
        assert_same_bits(matrix[1:4, 2:7], values[1:4, 2:7])
        assert matrix[1:4, 2:7].flags.writeable


def make_containers(folder):
    a, b, vector = make_matrix(), make_matrix((2, 2)), np.zeros(3)
    np.savez(folder / "two.npz", A=a, B=b, vector=vector)
    with h5py.File(folder / "two.h5", "w") as file:
        file["A"], file["g/B"], file["vector"] = a, b, vector
        file["gone"] = h5py.SoftLink("/nowhere")
    for form in (2, 3):
        group = zarr.open_group(folder / f"two{form}.zarr", mode="w", zarr_format=form)
        for name, values in {"A": a, "g/B": b, "vector": vector}.items():
            array = group.create_array(name, shape=values.shape, dtype=values.dtype)
            array[...] = values
    return ["two.npz", "two.h5", "two2.zarr", "two3.zarr"]


def test_members_are_found_by_name(tmp_path):
    for name in make_containers(tmp_path):
        b = "B" if name == "two.npz" else "g/B"
        assert_same_bits(everything(f"{tmp_path}/{name}::A"), make_matrix())
        assert_same_bits(everything(f"{tmp_path}/{name}::{b}"), make_matrix((2, 2)))
        with raises(StoreError, "many-matrices") as caught:
            open_matrix(tmp_path / name)
        assert f"'A', '{b}'" in caught.value.problem
        with raises(StoreError, "no-such-member"):
            open_matrix(f"{tmp_path}/{name}::none")
        with raises(StoreError, "matrix-shape"):
            open_matrix(f"{tmp_path}/{name}::vector")
    for path in ("two.h5::g", "two.h5::gone", "two2.zarr::g", "two3.zarr::g"):
        with raises(StoreError, "no-such-member"):
            open_matrix(f"{tmp_path}/{path}")


@pytest.mark.parametrize("name", NAMES)
def test_regions_of_every_kind(tmp_path, name):
    values = make_matrix()
    save(tmp_path / name, values)
    matrix = open_matrix(tmp_path / name)
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
    with pytest.raises(IndexError, match="outside an axis of length 5"):
        matrix[5, 0]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none.npy", "file-missing"),
        ("A.txt", "path-suffix"),
        ("", "path-empty"),
        ("s3://bucket/A.npy", "url-format"),
        ("A.npy::B", "path-member"),
        ("A.h5::", "path-member"),
        ("s.zarr::../t.zarr", "path-member"),
        (b"A.npy", "path-bytes"),
    ],
)
def test_paths_that_name_no_matrix(path, code):
    with raises(StoreError, code):
        open_matrix(path)
    if path != "none.npy":
        with raises(StoreError, code):
            find_unfinished(path)


@pytest.mark.parametrize("path", ["s.zarr::g/A", "s.zarr/g/A", "s.zarr//g/A/"])
def test_a_member_is_named_as_ours_or_as_zarrs(tmp_path, path):
    save(f"{tmp_path}/s.zarr::g/A", make_matrix())
    for name in ("s.zarr/B.npy", "s.zarr/t.zarr"):
        save(tmp_path / name, np.eye(2))
        assert_same_bits(everything(tmp_path / name), np.eye(2))
    matrix = open_matrix(f"{tmp_path}/{path}")
    assert (matrix.path, matrix.member) == (f"{tmp_path}/s.zarr", "g/A")
    assert_same_bits(matrix[:, :], make_matrix())


def test_a_file_of_another_kind_is_refused(tmp_path):
    for name in NAMES:
        path = tmp_path / name
        path.write_text("no matrix")
        with raises(StoreError, "no-matrix" if name == "C.zarr" else "file-damaged"):
            open_matrix(path)
        path.unlink()
        path.mkdir()
        with raises(StoreError, "no-matrix" if name == "C.zarr" else "file-kind"):
            open_matrix(path)
    (tmp_path / "C.zarr" / "zarr.json").write_text("{")
    with raises(StoreError, "file-damaged"):
        open_matrix(tmp_path / "C.zarr")
    # It would be waited for.
    os.mkfifo(tmp_path / "pipe.npy")
    with raises(StoreError, "file-kind"):
        open_matrix(tmp_path / "pipe.npy")


@pytest.mark.parametrize("dtype", ["f2", "g", "G", "M8[s]", "S3", "i4,f8"])
def test_other_dtypes_are_refused(tmp_path, dtype):
    values = np.zeros((2, 2), dtype)
    np.save(tmp_path / "A.npy", values)
    np.savez(tmp_path / "A.npz", A=values)
    names = ["A.npy", "A.npz"]
    if "M" not in dtype:
        with h5py.File(tmp_path / "A.h5", "w") as file:
            file["A"] = values
        names.append("A.h5")
    if dtype == "f2":
        zarr.create_array(tmp_path / "A.zarr", data=values)
        names.append("A.zarr")
    for name in names:
        with raises(StoreError, "matrix-dtype"):
            open_matrix(tmp_path / name)


def test_pickled_objects_are_refused_and_not_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "sprung",)

    values = np.full((2, 2), Trap())
    np.save(tmp_path / "A.npy", values, allow_pickle=True)
    np.savez(tmp_path / "A.npz", A=values)
    (tmp_path / "B.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("A.npy", "A.npz"):
        with raises(StoreError, "matrix-dtype"):
            open_matrix(tmp_path / name)
    with raises(StoreError, "file-damaged"):
        open_matrix(tmp_path / "B.npy")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
def test_other_dimensions_are_refused(tmp_path, shape):
    for name in NAMES:
        save(tmp_path / name, np.zeros(shape), "auto")
        code = "matrix-shape" if name == "C.npy" else "no-matrix"
        with raises(StoreError, code):
            open_matrix(tmp_path / name)


@pytest.mark.parametrize("name", ["C.npy", "C.npz", "C.h5"])
def test_every_truncated_file_is_found_at_once(tmp_path, name):
    save(tmp_path / name, make_matrix())
    whole = (tmp_path / name).read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / name).write_bytes(whole[:length])
        with pytest.raises(StoreError) as caught:
            open_matrix(tmp_path / name)
        assert caught.value.code in ("file-truncated", "file-damaged")
