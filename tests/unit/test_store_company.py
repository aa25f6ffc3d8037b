"""Stores among dask, other processes and programs, damage and full disks."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from dask.base import tokenize
from hypothesis import given
from hypothesis import strategies as st

from tests.expect import raises
from tests.stored import (
    NAMES,
    assert_same_bits,
    everything,
    make_matrix,
    save,
)
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished, open_matrix
from twom_dist.store._errors import store_errors
from twom_dist.store._region import split_index


def test_a_missing_zarr_chunk_holds_the_fill_value(tmp_path: Path) -> None:
    zarr.create_array(
        tmp_path / "A.zarr", shape=(4, 4), chunks=(2, 2), dtype="f8", fill_value=3
    )
    assert_same_bits(everything(tmp_path / "A.zarr"), np.full((4, 4), 3.0))


def test_a_path_may_hold_colons(tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "a::b"
    folder.mkdir()
    save(folder / "C.npy", make_matrix())
    monkeypatch.chdir(tmp_path)
    save("C.NPZ::x::y", make_matrix())
    matrix = open_matrix("C.NPZ::x::y.npy")
    # Workers need not run in the folder where the client was started.
    monkeypatch.chdir("/")
    assert str(matrix.location) == f"{tmp_path}/C.NPZ::x::y"
    assert_same_bits(matrix[:, :], make_matrix())


@given(st.data())
def test_an_index_is_a_rectangle_and_an_index_within(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    index = tuple(data.draw(st.slices(extent)) for extent in shape)
    values = np.arange(shape[0] * shape[1]).reshape(shape)
    region, within = split_index(index, shape)
    assert np.array_equal(values[region][within], values[index])


@pytest.mark.parametrize("name", NAMES)
def test_dask_reads(tmp_path: Path, name: str) -> None:
    values = make_matrix((9, 8))
    save(tmp_path / name, values)
    matrix = open_matrix(tmp_path / name)
    options = {"chunks": (4, 3), "inline_array": True, "asarray": False}
    A = da.from_array(matrix, **options)
    assert_same_bits(A.compute(), values)
    assert_same_bits(A[::2, 1].compute(), values[::2, 1])
    assert_same_bits(A[[5, 0], ::-1].compute(), values[[5, 0], ::-1])
    assert A.name == da.from_array(open_matrix(tmp_path / name), **options).name


@pytest.mark.parametrize("name", NAMES)
def test_a_token_names_the_content(tmp_path: Path, name: str) -> None:
    save(tmp_path / name, make_matrix())
    first = open_matrix(tmp_path / name)
    assert tokenize(first) == tokenize(open_matrix(tmp_path / name))
    shutil.rmtree(tmp_path / name, ignore_errors=True)
    save(tmp_path / name, make_matrix((3, 3)))
    assert tokenize(first) != tokenize(open_matrix(tmp_path / name))
    with raises(StoreError, "matrix-rewritten"):
        first[:2, :2]


@pytest.mark.parametrize("form", [2, 3])
def test_a_damaged_chunk_is_found_when_it_is_read(tmp_path: Path, form: Any) -> None:
    array = zarr.create_array(
        tmp_path / "A.zarr", data=make_matrix(), chunks=(2, 3), zarr_format=form
    )
    chunk = tmp_path / "A.zarr" / ("0.0" if form == 2 else "c/0/0")
    chunk.write_bytes(chunk.read_bytes()[:-5])
    matrix = open_matrix(tmp_path / "A.zarr")
    assert_same_bits(matrix[2:, :], array[2:, :])
    with raises(StoreError, "file-damaged"):
        matrix[:1, :1]


def test_a_damaged_archive_member_is_found_when_it_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "A.npz", A=np.arange(4e4).reshape(200, 200))
    matrix = open_matrix(tmp_path / "A.npz")
    whole = bytearray((tmp_path / "A.npz").read_bytes())
    whole[len(whole) // 2] ^= 255
    (tmp_path / "A.npz").write_bytes(whole)
    with raises(StoreError, "file-damaged"):
        matrix[:1, :1]


def test_a_file_that_went_away_is_an_error(tmp_path: Path) -> None:
    for name in NAMES:
        save(tmp_path / name, make_matrix())
        matrix = open_matrix(tmp_path / name)
        shutil.move(tmp_path / name, tmp_path / "away")
        with raises(StoreError, "file-missing"):
            matrix[:1, :1]
        shutil.move(tmp_path / "away", tmp_path / f"old_{name}")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: Any) -> None:
    save(tmp_path / "A.npy", make_matrix())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with raises(StoreError, "no-permission"):
        find_unfinished(tmp_path / "C.npy").check(overwrite=False)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-quota"),
        (errno.EACCES, "no-permission"),
        (errno.EROFS, "no-permission"),
        (errno.EIO, "disk-broken"),
    ],
)
def test_what_the_system_refuses_has_a_code(number: int, code: str) -> None:
    with raises(StoreError, code), store_errors("C", "written"):
        raise OSError(number, "the reason")
