"""What a stored matrix is: what it refers to, what it lacks, where it comes from."""

import os

import h5py
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.expect import raises
from tests.stored import make_matrix, save, write_output
from twom_dist.errors import StoreError
from twom_dist.store import open_matrix


@pytest.fixture
def virtual(tmp_path):
    """Store a matrix whose rows are virtual, linked and external, in other files."""
    values = make_matrix((4, 6), "f8")
    (tmp_path / "parts").mkdir()
    save(tmp_path / "parts" / "top.h5", values[:2])
    with h5py.File(tmp_path / "parts" / "low.h5", "w") as file:
        raw = [(str(tmp_path / "raw.bin"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("matrix", data=values[2:], external=raw)
    layout = h5py.VirtualLayout((4, 6), "f8")
    layout[:2] = h5py.VirtualSource("parts/top.h5", "matrix", (2, 6))
    layout[2:] = h5py.VirtualSource("parts/low.h5", "matrix", (2, 6))
    with h5py.File(tmp_path / "V.h5", "w") as file:
        file.create_virtual_dataset("A", layout)
    with h5py.File(tmp_path / "A.h5", "w") as file:
        file["linked"] = h5py.ExternalLink("V.h5", "A")
    return tmp_path / "A.h5"


@pytest.mark.parametrize("part", ["V.h5", "parts/top.h5", "parts/low.h5", "raw.bin"])
def test_all_that_hdf5_refers_to_belongs_to_the_matrix(virtual, tmp_path, part):
    matrix = open_matrix(f"{virtual}::linked")
    assert matrix[:, :].tobytes() == make_matrix((4, 6), "f8").tobytes()
    before = matrix.stamp()
    os.utime(tmp_path / part, ns=(1, 1))
    assert matrix.stamp() != before
    (tmp_path / part).unlink()
    # HDF5 itself finds that a linked file is missing.
    code = "no-such-member" if part == "V.h5" else "source-missing"
    with raises(StoreError, code):
        open_matrix(f"{virtual}::linked")


def test_a_virtual_source_must_be_in_its_file(virtual, tmp_path):
    with h5py.File(tmp_path / "parts" / "top.h5", "r+") as file:
        file.move("matrix", "other")
    with raises(StoreError, "source-missing"):
        open_matrix(f"{virtual}::linked")


@pytest.mark.parametrize(
    ("form", "shards", "whole"), [(2, None, 9), (3, None, 9), (3, (4, 6), 4)]
)
def test_chunks_are_counted(tmp_path, form, shards, whole):
    options = {"chunks": (2, 3), "shards": shards, "zarr_format": form, "fill_value": 3}
    path = tmp_path / "A.zarr"
    array = zarr.create_array(path, shape=(5, 7), dtype="c16", **options)
    matrix = open_matrix(path)
    assert matrix.count_chunks() == (0, whole)
    assert np.array_equal(matrix[:, :], np.full((5, 7), 3))
    array[:2, :3] = 1
    assert matrix.count_chunks() == (1, whole)
    array[:] = 1
    assert matrix.count_chunks() == (whole, whole)


def test_missing_chunks_are_told_or_refused(tmp_path):
    values = make_matrix((4, 6))
    values[:2, :3] = 0
    path, output = tmp_path / "A.zarr", tmp_path / "C.npy"
    array = zarr.create_array(path, shape=(4, 6), dtype="c16", chunks=(2, 3))
    with raises(StoreError, "no-chunks"):
        td.multiply_files(path, path, output, op_b="C")
    array[:] = values
    assert open_matrix(path).count_chunks() == (3, 4)
    with raises(StoreError, "missing-chunks"):
        td.multiply_files(path, path, output, op_b="C", refuse_missing=True)
    assert os.listdir(tmp_path) == ["A.zarr"]
    summary = td.multiply_files(path, path, output, op_b="C")
    assert summary.missing == {"A": 1, "B": 1}
    assert "1 chunks of A are missing" in repr(summary)
    assert np.array_equal(np.load(output), td.gemm(values, values, op_b="C"))


def test_an_output_tells_where_it_comes_from(tmp_path):
    save(tmp_path / "A.npy", make_matrix((4, 4), "f8"))
    for name in ("C.zarr", "C.h5", "C.npy"):
        td.update_files("herk", tmp_path / "A.npy", tmp_path / name, alpha=2)
    assert open_matrix(tmp_path / "C.npy").provenance() == {}
    for name in ("C.zarr", "C.h5"):
        found = open_matrix(tmp_path / name).provenance()
        made = found["made"]
        assert found["complete"]
        assert (made["routine"], made["alpha"]) == ("herk", "2.0")
        assert found["inputs"]["A"][0] == str(tmp_path / "A.npy")
        assert 0 < found["error_bound"] < 1e-15
        assert found["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize("name", ["C.npy", "C.zarr"])
def test_what_is_replaced_hands_on_its_permissions(tmp_path, name):
    path = tmp_path / name
    save(path, make_matrix())
    path.chmod(0o750 if path.is_dir() else 0o640)
    mode = path.stat().st_mode
    write_output(path, np.eye(4), overwrite=True)
    assert path.stat().st_mode == mode
