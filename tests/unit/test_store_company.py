"""Stores among dask, other processes and programs, damage and full disks."""

import errno
import operator
import os
import resource
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import dask.array as da
import h5py
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
    left_behind,
    make_matrix,
    save,
    tiles,
    write_tiles,
)
from twom_dist.errors import StoreError
from twom_dist.store import create_matrix, open_matrix
from twom_dist.store._checks import store_errors
from twom_dist.store._region import split_index


@pytest.mark.parametrize("name", NAMES)
def test_signs_of_zero_and_payloads_of_nan_survive(tmp_path: Path, name: str) -> None:
    values = np.full((4, 6), complex(-0.0, -0.0))
    values[2:, :3].view(np.uint64)[:] = 0x7FF8_0000_0000_1234
    save(tmp_path / name, values)
    assert_same_bits(everything(tmp_path / name), values)


def test_zarr_output_is_format_3_in_uncompressed_tiles(tmp_path: Path) -> None:
    save(tmp_path / "C.zarr", make_matrix())
    array = zarr.open_array(tmp_path / "C.zarr", mode="r")
    assert (array.metadata.zarr_format, array.chunks) == (3, (2, 3))
    assert array.compressors == ()
    assert open_matrix(tmp_path / "C.zarr").chunks == (2, 3)


def test_the_usual_libraries_read_the_output(tmp_path: Path) -> None:
    values = make_matrix(dtype="i4")
    for name in NAMES:
        save(tmp_path / name, values)
    with np.load(tmp_path / "C.npz") as archive:
        assert_same_bits(archive["matrix"], values)
    with h5py.File(tmp_path / "C.h5") as file:
        assert_same_bits(file["matrix"][:], values)
    assert_same_bits(np.load(tmp_path / "C.npy"), values)
    assert_same_bits(zarr.open_array(tmp_path / "C.zarr", mode="r")[:], values)


@pytest.mark.parametrize("name", NAMES)
def test_a_tile_may_be_larger_than_the_matrix(tmp_path: Path, name: str) -> None:
    with create_matrix(tmp_path / name, (2, 3), "c16", (4096, 4096)) as writer:
        writer[:, :] = np.ones((2, 3))
    assert_same_bits(everything(tmp_path / name), np.ones((2, 3), "c16"))


@pytest.mark.parametrize("name", NAMES)
def test_tiles_of_any_layout_are_written(tmp_path: Path, name: str) -> None:
    values = make_matrix((6, 8))
    with create_matrix(tmp_path / name, (6, 8), "c16", (3, 8)) as writer:
        writer[0:3, 0:8] = np.asfortranarray(values[0:3])
        writer[3:6, 0:4] = values[::-1][:3][::-1][:, :4]
        writer[3:6, 4:8] = values[3:, 4:].tolist()
        writer[2:2, 0:4] = np.empty((0, 4))
    assert_same_bits(everything(tmp_path / name), values)


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
    assert (matrix.path, matrix.member) == (str(tmp_path / "C.NPZ"), "x::y")
    assert_same_bits(matrix[:, :], make_matrix())


@given(st.data())
def test_an_index_is_a_rectangle_and_an_index_within(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    index = tuple(data.draw(st.slices(extent)) for extent in shape)
    values = np.arange(shape[0] * shape[1]).reshape(shape)
    region, within = split_index(index, shape)
    assert np.array_equal(values[region][within], values[index])


@pytest.mark.parametrize("name", NAMES)
def test_dask_reads_and_writes(tmp_path: Path, name: str) -> None:
    values = make_matrix((9, 8))
    save(tmp_path / name, values)
    matrix = open_matrix(tmp_path / name)
    options = {"chunks": (4, 3), "inline_array": True, "asarray": False}
    A = da.from_array(matrix, **options)
    assert_same_bits(A.compute(), values)
    assert_same_bits(A[::2, 1].compute(), values[::2, 1])
    assert_same_bits(A[[5, 0], ::-1].compute(), values[[5, 0], ::-1])
    assert A.name == da.from_array(open_matrix(tmp_path / name), **options).name
    with create_matrix(tmp_path / f"out_{name}", A.shape, A.dtype, (4, 3)) as writer:
        da.store(A, writer, lock=not writer.concurrent)
    assert_same_bits(everything(tmp_path / f"out_{name}"), values)


@pytest.mark.parametrize("name", NAMES)
def test_a_token_names_the_content(tmp_path: Path, name: str) -> None:
    save(tmp_path / name, make_matrix())
    first = open_matrix(tmp_path / name)
    assert tokenize(first) == tokenize(open_matrix(tmp_path / name))
    save(tmp_path / name, make_matrix((3, 3)), overwrite=True)
    assert tokenize(first) != tokenize(open_matrix(tmp_path / name))
    with raises(StoreError, "matrix-rewritten"):
        first[:2, :2]


@pytest.mark.parametrize("name", ["C.zarr", "C.npy"])
def test_several_processes_write_at_once(tmp_path: Path, name: str) -> None:
    values = make_matrix((40, 50))
    regions = tiles(values.shape, (7, 9))
    parts = [values[region] for region in regions]
    writer = create_matrix(tmp_path / name, values.shape, "c16", (7, 9))
    assert writer.concurrent
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(operator.setitem, [writer] * len(regions), regions, parts))
        writer.commit()
        matrix = open_matrix(tmp_path / name)
        found = list(pool.map(operator.getitem, [matrix] * len(regions), regions))
    for part, copy in zip(parts, found, strict=True):
        assert_same_bits(copy, part)
    assert_same_bits(matrix[:, :], values)


def test_hdf5_and_npz_have_one_writer(tmp_path: Path) -> None:
    for name in ("C.npz", "C.h5", "C.hdf5"):
        assert not create_matrix(tmp_path / name, (1, 1), "f8", (1, 1)).concurrent


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
        open_matrix(tmp_path / "A.npy")
    with raises(StoreError, "no-permission"):
        create_matrix(tmp_path / "C.npy", (1, 1), "f8", (1, 1))


def test_only_matrices_are_overwritten(tmp_path: Path) -> None:
    (tmp_path / "C.npy").mkdir()
    (tmp_path / "C.zarr").mkdir()
    (tmp_path / "C.zarr" / "thesis.tex").touch()
    for name in ("C.npy", "C.zarr"):
        with raises(StoreError, "output-no-matrix"):
            create_matrix(tmp_path / name, (1, 1), "f8", (1, 1), overwrite=True)
    (tmp_path / "C.zarr" / "thesis.tex").unlink()
    save(tmp_path / "C.zarr", make_matrix(), overwrite=True)
    assert_same_bits(everything(tmp_path / "C.zarr"), make_matrix())


@pytest.mark.parametrize("name", ["C.zarr", "C.npz"])
def test_a_failed_commit_keeps_both(
    tmp_path: Path, monkeypatch: Any, name: str
) -> None:
    save(tmp_path / name, make_matrix())
    writer = create_matrix(tmp_path / name, (4, 4), "f8", (2, 2), overwrite=True)
    write_tiles(writer, np.eye(4))

    def refuse(step: Callable[..., None]) -> Callable[..., None]:
        def move(source: str, target: str) -> None:
            if source.endswith(".partial"):
                raise PermissionError(errno.EACCES, "Permission denied")
            step(source, target)

        return move

    with monkeypatch.context() as patch:
        for step in ("rename", "replace"):
            patch.setattr(os, step, refuse(getattr(os, step)))
        with raises(StoreError, "no-permission") as caught:
            writer.commit()
    assert writer.temporary in caught.value.problem
    assert_same_bits(everything(tmp_path / name), make_matrix())
    assert len(left_behind(tmp_path)) == 1
    writer.commit()
    assert_same_bits(everything(tmp_path / name), np.eye(4))
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_target_that_came_up_meanwhile_stays(tmp_path: Path, name: str) -> None:
    writer = create_matrix(tmp_path / name, (4, 4), "f8", (2, 2))
    write_tiles(writer, np.eye(4))
    save(tmp_path / name, make_matrix())
    with raises(StoreError, "output-came-up") as caught:
        writer.commit()
    assert writer.temporary in caught.value.problem
    assert_same_bits(everything(tmp_path / name), make_matrix())


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


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_may_not_grow(tmp_path: Path, name: str) -> None:
    values = np.ones((256, 256))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = create_matrix(tmp_path / name, values.shape, "f8", (256, 256))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        with raises(StoreError, "file-size-limit"), writer:
            writer[:, :] = values
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "C.npy").symlink_to(tmp_path / "disk" / "C.npy")
    save(tmp_path / "C.npy", make_matrix())
    assert (tmp_path / "C.npy").is_symlink()
    assert_same_bits(everything(tmp_path / "disk" / "C.npy"), make_matrix())


def test_an_archive_holds_one_uncompressed_member(tmp_path: Path) -> None:
    save(f"{tmp_path}/C.npz::g/C", make_matrix())
    with ZipFile(tmp_path / "C.npz") as archive:
        (info,) = archive.infolist()
        assert archive.testzip() is None
    assert (info.filename, info.compress_size) == ("g/C.npy", info.file_size)
