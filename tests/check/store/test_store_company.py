"""Stores among dask, other processes and programs, and damage."""

import os
import pickle
import shutil
import tracemalloc
import zipfile
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from dask.base import tokenize

import twom_dist as td
from tests.support.expect import raises
from tests.support.stored import NAMES, assert_same_bits, make_matrix, save
from twom_dist.errors import StoreError
from twom_dist.store import open_matrix

pytestmark = pytest.mark.usefixtures("here")


def test_a_path_may_hold_colons(here, monkeypatch):
    Path("a::b").mkdir()
    monkeypatch.chdir("a::b")
    save("C.NPZ::x::y", make_matrix())
    matrix = open_matrix("C.NPZ::x::y.npy")
    # Workers need not run in the folder where the client was started.
    monkeypatch.chdir("/")
    assert (matrix.path, matrix.location.member) == (f"{here}/a::b/C.NPZ", "x::y")
    assert_same_bits(matrix[:, :], make_matrix())


@pytest.mark.parametrize("name", NAMES)
def test_dask_reads_what_was_there_when_it_was_opened(name):
    values = make_matrix((9, 8))
    save(name, values)
    matrix = open_matrix(name)
    assert pickle.loads(pickle.dumps(matrix)) == matrix
    A = da.from_array(matrix, chunks=(4, 3), inline_array=True, asarray=False)
    assert_same_bits(A[[5, 0], ::-1].compute(), values[[5, 0], ::-1])
    assert tokenize(matrix) == tokenize(open_matrix(name))
    shutil.rmtree(name, ignore_errors=True)
    save(name, make_matrix((3, 3)))
    assert tokenize(matrix) != tokenize(open_matrix(name))
    with raises(StoreError, "matrix-rewritten"):
        matrix[:2, :2]
    shutil.move(name, "away")
    with raises(StoreError, "file-missing"):
        matrix[:1, :1]


def test_damage_is_found_when_it_is_read():
    values = make_matrix()
    for name, form, chunk in (("2.zarr", 2, "0.0"), ("3.zarr", 3, "c/0/0")):
        zarr.create_array(name, data=values, chunks=(2, 3), zarr_format=form)
        os.truncate(f"{name}/{chunk}", 40)
        assert_same_bits(open_matrix(name)[2:, :], values[2:, :])
    np.savez_compressed("A.npz", A=np.arange(4e4).reshape(200, 200))
    whole = bytearray(Path("A.npz").read_bytes())
    whole[len(whole) // 2] ^= 255
    Path("A.npz").write_bytes(whole)
    for name in ("2.zarr", "3.zarr", "A.npz"):
        matrix = open_matrix(name)
        with raises(StoreError, "file-damaged"):
            matrix[:1, :1]


def multiply_by_itself(path):
    """Run a job on one matrix."""
    return td.multiply_files(path, path, "C.npy", engine="reference", num_moduli=16)


def test_a_flipped_bit_of_a_stored_member_is_found_by_a_job():
    save("A.npz", td.testing.random_matrix(64, 64))
    multiply_by_itself("A.npz")
    data = bytearray(Path("A.npz").read_bytes())
    data[9000] ^= 1
    Path("A.npz").write_bytes(data)
    with raises(StoreError, "file-damaged") as caught:
        td.multiply_files("A.npz", "A.npz", "D.npy")
    assert "CRC" in caught.value.problem
    assert sorted(os.listdir()) == ["A.npz", "C.npy"]


def test_a_compressed_member_takes_little_memory_and_time(monkeypatch):
    values = np.tile(np.arange(1024.0), (1024, 1))
    np.savez_compressed("A.npz", A=values)
    matrix = open_matrix("A.npz")
    tracemalloc.start()
    try:
        for order in ("C", "F"):
            np.savez_compressed("A.npz", A=np.asarray(values, order=order))
            tracemalloc.reset_peak()
            matrix = open_matrix("A.npz")
            assert_same_bits(matrix[512:520, 10:20], values[512:520, 10:20])
            assert tracemalloc.get_traced_memory()[1] < values.nbytes
            tracemalloc.reset_peak()
            half = matrix[:, :512] if order == "F" else matrix[:512, :]
            # Columns are turned into rows, which takes a copy.
            copies = 2 if order == "F" else 1
            room = copies * half.nbytes + 3 * 2**20
            assert tracemalloc.get_traced_memory()[1] < room
            del half
    finally:
        tracemalloc.stop()
    monkeypatch.setattr("twom_dist.store._npz._MOST_UNPACKED", values.nbytes)
    with raises(StoreError, "npz-compressed") as caught:
        multiply_by_itself("A.npz")
    assert caught.value.remedy.startswith("Store it as .npy")
    assert os.listdir() == ["A.npz"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("zeros", [True, False])
def test_a_member_that_claims_more_than_it_has(compression, zeros):
    """In its own header, and in the list of the archive as well."""
    save("A.npy", np.zeros((200, 200)) if zeros else make_matrix((200, 200), "f8"))
    data = Path("A.npy").read_bytes()
    with zipfile.ZipFile("A.npz", "w", compression) as archive:
        archive.writestr("A.npy", data[:30_000] if zeros else data[:-8])
    with raises(StoreError, "file-truncated"):
        open_matrix("A.npz")
    listed = bytearray(Path("A.npz").read_bytes())
    size = listed.index(b"PK\1\2") + 24
    listed[size : size + 4] = len(data).to_bytes(4, "little")
    Path("A.npz").write_bytes(listed)
    # What is compressed may be many times as long, but not any times.
    seen = zeros or compression == zipfile.ZIP_STORED
    matrix = None if seen else open_matrix("A.npz")
    with raises(StoreError, "file-truncated"):
        open_matrix("A.npz") if matrix is None else matrix[:, :]
