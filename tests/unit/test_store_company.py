"""Stores among dask, other processes and programs, and damage."""

import os
import pickle
import shutil
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from dask.base import tokenize

from tests.expect import raises
from tests.stored import NAMES, assert_same_bits, make_matrix, save
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
