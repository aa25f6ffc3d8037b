"""Stores among dask, other processes and programs, and damage."""

import errno
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
from twom_dist.store import find_unfinished, open_matrix
from twom_dist.store._errors import store_errors

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
    assert_same_bits(A.compute(), values)
    assert_same_bits(A[::2, 1].compute(), values[::2, 1])
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


@pytest.mark.parametrize("form", [2, 3])
def test_a_damaged_chunk_is_found_when_it_is_read(form):
    values = make_matrix()
    zarr.create_array("A.zarr", data=values, chunks=(2, 3), zarr_format=form)
    os.truncate("A.zarr/0.0" if form == 2 else "A.zarr/c/0/0", 40)
    matrix = open_matrix("A.zarr")
    assert_same_bits(matrix[2:, :], values[2:, :])
    with raises(StoreError, "file-damaged"):
        matrix[:1, :1]


def test_a_damaged_archive_member_is_found_when_it_is_read():
    np.savez_compressed("A.npz", A=np.arange(4e4).reshape(200, 200))
    matrix = open_matrix("A.npz")
    whole = bytearray(Path("A.npz").read_bytes())
    whole[len(whole) // 2] ^= 255
    Path("A.npz").write_bytes(whole)
    with raises(StoreError, "file-damaged"):
        matrix[:1, :1]


@pytest.mark.parametrize("mode", [0o600, 0o500])
def test_a_folder_that_is_closed_is_not_taken_for_missing(here, mode):
    """Neither one that cannot be looked into, nor one that cannot be written."""
    target = here / ("closed/inner/C.npy" if mode == 0o600 else "closed/C.npy")
    target.parent.mkdir(parents=True)
    Path("closed").chmod(mode)
    users = os.getresuid()
    try:
        if users[0] == 0:
            # Root may go anywhere, and comes back as the saved user.
            here.parent.chmod(0o711)
            os.setresuid(65534, 65534, 0)
        with raises(StoreError, "no-folder"):
            find_unfinished(target).check(overwrite=False)
    finally:
        os.setresuid(*users)
        Path("closed").chmod(0o700)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-quota"),
        (errno.EACCES, "no-permission"),
        (errno.EROFS, "no-permission"),
        (errno.EBUSY, "file-busy"),
        (errno.EIO, "disk-broken"),
    ],
)
def test_what_the_system_refuses_has_a_code(number, code):
    with raises(StoreError, code), store_errors("C", "written"):
        raise OSError(number, "the reason")
