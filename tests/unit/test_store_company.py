"""Stores among dask, other processes and programs, and damage."""

import errno
import os
import pickle
import shutil

import dask.array as da
import numpy as np
import pytest
import zarr
from dask.base import tokenize

from tests.expect import raises
from tests.stored import NAMES, assert_same_bits, make_matrix, save
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished, open_matrix
from twom_dist.store._checks import store_errors


def test_a_path_may_hold_colons(tmp_path, monkeypatch):
    folder = tmp_path / "a::b"
    folder.mkdir()
    save(folder / "C.npy", make_matrix())
    monkeypatch.chdir(tmp_path)
    save("C.NPZ::x::y", make_matrix())
    matrix = open_matrix("C.NPZ::x::y.npy")
    # Workers need not run in the folder where the client was started.
    monkeypatch.chdir("/")
    assert (matrix.path, matrix.member) == (str(tmp_path / "C.NPZ"), "x::y")
    assert_same_bits(matrix[:, :], make_matrix())


@pytest.mark.parametrize("name", NAMES)
def test_dask_reads_what_was_there_when_it_was_opened(tmp_path, name):
    values = make_matrix((9, 8))
    save(tmp_path / name, values)
    matrix = open_matrix(tmp_path / name)
    assert pickle.loads(pickle.dumps(matrix)) == matrix
    options = {"chunks": (4, 3), "inline_array": True, "asarray": False}
    A = da.from_array(matrix, **options)
    assert_same_bits(A.compute(), values)
    assert_same_bits(A[::2, 1].compute(), values[::2, 1])
    assert_same_bits(A[[5, 0], ::-1].compute(), values[[5, 0], ::-1])
    assert tokenize(matrix) == tokenize(open_matrix(tmp_path / name))
    shutil.rmtree(tmp_path / name, ignore_errors=True)
    save(tmp_path / name, make_matrix((3, 3)))
    assert tokenize(matrix) != tokenize(open_matrix(tmp_path / name))
    with raises(StoreError, "matrix-rewritten"):
        matrix[:2, :2]
    shutil.move(tmp_path / name, tmp_path / "away")
    with raises(StoreError, "file-missing"):
        matrix[:1, :1]


@pytest.mark.parametrize("form", [2, 3])
def test_a_damaged_chunk_is_found_when_it_is_read(tmp_path, form):
    array = zarr.create_array(
        tmp_path / "A.zarr", data=make_matrix(), chunks=(2, 3), zarr_format=form
    )
    chunk = tmp_path / "A.zarr" / ("0.0" if form == 2 else "c/0/0")
    chunk.write_bytes(chunk.read_bytes()[:-5])
    matrix = open_matrix(tmp_path / "A.zarr")
    assert_same_bits(matrix[2:, :], array[2:, :])
    with raises(StoreError, "file-damaged"):
        matrix[:1, :1]


def test_a_damaged_archive_member_is_found_when_it_is_read(tmp_path):
    np.savez_compressed(tmp_path / "A.npz", A=np.arange(4e4).reshape(200, 200))
    matrix = open_matrix(tmp_path / "A.npz")
    whole = bytearray((tmp_path / "A.npz").read_bytes())
    whole[len(whole) // 2] ^= 255
    (tmp_path / "A.npz").write_bytes(whole)
    with raises(StoreError, "file-damaged"):
        matrix[:1, :1]


@pytest.mark.parametrize("mode", [0o600, 0o500])
def test_a_folder_that_is_closed_is_not_taken_for_missing(tmp_path, mode):
    """Neither one that cannot be looked into, nor one that cannot be written."""
    folder = tmp_path / "closed"
    inner = folder / "inner" if mode == 0o600 else folder
    inner.mkdir(parents=True)
    folder.chmod(mode)
    users = os.getresuid()
    try:
        if users[0] == 0:
            # Root may go anywhere, and comes back as the saved user.
            tmp_path.parent.chmod(0o711)
            os.setresuid(65534, 65534, 0)
        with raises(StoreError, "no-permission"):
            find_unfinished(inner / "C.npy").check(overwrite=False)
    finally:
        os.setresuid(*users)
        folder.chmod(0o700)


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
