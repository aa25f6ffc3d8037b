"""Outputs: the place is checked first, and the old stays until the new is whole."""

import errno
import os
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import h5py
import numpy as np
import pytest
import zarr

from tests.expect import raises
from tests.stored import (
    NAMES,
    assert_same_bits,
    begun,
    everything,
    left_behind,
    make_matrix,
    save,
    write_output,
)
from twom_dist.errors import StoreError
from twom_dist.store import Output, find_unfinished, open_matrix
from twom_dist.store import _publish as publishing

ROOT = Path(__file__).resolve().parents[2]
MEMBER_NAMES = ["C.zarr::g/C", "C.npz::C", "C.h5::g/C"]
DTYPES = ["?", "i1", "u2", "i4", "u8", "f4", "f8", "c8", "c16"]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (5, 7), (6, 4)]


# --- what is written ------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
def test_what_was_written_is_read_bit_for_bit(tmp_path: Path, name: str) -> None:
    path, overwrite = f"{tmp_path}/{name}", False
    for dtype in DTYPES:
        values = make_matrix(dtype=dtype)
        write_output(path, values, overwrite=overwrite)
        assert_same_bits(everything(path), values)
        # The member may be left out, since it is the only one.
        file = Path(path.partition("::")[0])
        assert_same_bits(everything(file), values)
        assert left_behind(tmp_path) == []
        shutil.rmtree(file) if file.is_dir() else file.unlink()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_every_shape(tmp_path: Path, name: str, shape: tuple[int, int]) -> None:
    values = make_matrix(shape)
    write_output(tmp_path / name, values)
    assert_same_bits(everything(tmp_path / name), values)


@pytest.mark.parametrize("name", NAMES)
def test_signs_of_zero_and_payloads_of_nan_survive(tmp_path: Path, name: str) -> None:
    values = np.full((4, 6), complex(-0.0, -0.0))
    values[2:, :3].view(np.uint64)[:] = 0x7FF8_0000_0000_1234
    write_output(tmp_path / name, values)
    assert_same_bits(everything(tmp_path / name), values)


def test_zarr_output_is_format_3_in_uncompressed_tiles(tmp_path: Path) -> None:
    write_output(tmp_path / "C.zarr", make_matrix())
    array = zarr.open_array(tmp_path / "C.zarr", mode="r")
    assert (array.metadata.zarr_format, array.chunks) == (3, (2, 3))
    assert array.compressors == ()
    assert open_matrix(tmp_path / "C.zarr").chunks == (2, 3)


def test_the_usual_libraries_read_the_output(tmp_path: Path) -> None:
    values = make_matrix(dtype="i4")
    for name in NAMES:
        write_output(tmp_path / name, values)
    with np.load(tmp_path / "C.npz") as archive:
        assert_same_bits(archive["matrix"], values)
    with h5py.File(tmp_path / "C.h5") as file:
        assert_same_bits(file["matrix"][:], values)
        assert file["matrix"].chunks == (2, 3)
    assert_same_bits(np.load(tmp_path / "C.npy"), values)
    assert_same_bits(zarr.open_array(tmp_path / "C.zarr", mode="r")[:], values)


def test_an_archive_holds_one_uncompressed_member(tmp_path: Path) -> None:
    write_output(f"{tmp_path}/C.npz::g/C", make_matrix())
    with ZipFile(tmp_path / "C.npz") as archive:
        (info,) = archive.infolist()
        assert archive.testzip() is None
    assert (info.filename, info.compress_size) == ("g/C.npy", info.file_size)


@pytest.mark.parametrize("name", NAMES)
def test_a_tile_may_be_larger_than_the_matrix(tmp_path: Path, name: str) -> None:
    place = find_unfinished(tmp_path / name)
    output = place.output((2, 3), (4096, 4096), np.dtype("c16"))
    with place.lock():
        place.start(output, {})
        output.write(0, 0, np.asfortranarray(make_matrix((2, 3))))
        place.finish(output, overwrite=False)
    assert_same_bits(everything(tmp_path / name), make_matrix((2, 3)))


def write_one(output: Output, i: int, values: np.ndarray) -> None:
    """Write a row of tiles; runs in other processes."""
    for j in range(6):
        output.write(i, j, values[output.region(i, j)])


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    values = make_matrix((40, 50))
    place = find_unfinished(tmp_path / "C.zarr")
    output = place.output(values.shape, (7, 9), values.dtype)
    assert pickle.loads(pickle.dumps(output)) == output
    with place.lock():
        place.start(output, {})
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            rows = range(6)
            list(pool.map(write_one, [output] * 6, rows, [values] * 6))
        assert output.finished() == {(i, j) for i in rows for j in rows}
        place.finish(output, overwrite=False)
    assert_same_bits(everything(tmp_path / "C.zarr"), values)


# --- what exists ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_place_is_checked_first(
    tmp_path: Path, monkeypatch: Any, name: str
) -> None:
    with raises(StoreError, "no-folder"):
        find_unfinished(tmp_path / "none" / name).check(overwrite=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=127))
    place = find_unfinished(tmp_path / name)
    place.check(overwrite=False)
    with raises(StoreError, "disk-full"):
        place.check_space(place.output((2, 4), (2, 4), np.dtype("c16")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
def test_what_exists_is_not_overwritten_by_chance(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    save(path, make_matrix())
    member = "::" in name
    code = "container-exists" if member else "output-exists"
    for overwrite in (False, True) if member else (False,):
        with raises(StoreError, code):
            find_unfinished(path).check(overwrite)


def test_only_matrices_are_overwritten(tmp_path: Path) -> None:
    (tmp_path / "C.npy").mkdir()
    (tmp_path / "C.zarr").mkdir()
    (tmp_path / "C.zarr" / "thesis.tex").touch()
    for name in ("C.npy", "C.zarr"):
        with raises(StoreError, "output-no-matrix"):
            find_unfinished(tmp_path / name).check(overwrite=True)
    (tmp_path / "C.zarr" / "thesis.tex").unlink()
    write_output(tmp_path / "C.zarr", make_matrix(), overwrite=True)
    assert_same_bits(everything(tmp_path / "C.zarr"), make_matrix())


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
@pytest.mark.parametrize("old", [False, True])
def test_only_finishing_touches_the_target(
    tmp_path: Path, name: str, old: bool
) -> None:
    path, first, second = tmp_path / name.partition("::")[0], make_matrix(), np.eye(4)
    if old:
        save(path, first)
    target = path if old else f"{tmp_path}/{name}"
    with begun(target, second, overwrite=old) as (place, output):
        assert path.exists() == old
        if old:
            assert_same_bits(everything(path), first)
        assert left_behind(tmp_path) == [f".{path.name}.unfinished"]
        place.finish(output, overwrite=old)
        assert_same_bits(everything(path), second)
        with raises(StoreError, "file-missing"):
            output.write(0, 0, np.zeros((2, 3)))
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("name", ["C.zarr", "C.npz"])
def test_what_cannot_be_put_in_place_keeps_both(
    tmp_path: Path, monkeypatch: Any, name: str, exchange: bool
) -> None:
    save(tmp_path / name, make_matrix())

    def refuse(step: Callable[..., None]) -> Callable[..., None]:
        def move(source: str, target: str) -> None:
            if target == str(tmp_path / name) and not source.endswith(".old"):
                raise PermissionError(errno.EACCES, "Permission denied")
            step(source, target)

        return move

    with begun(tmp_path / name, np.eye(4), overwrite=True) as (place, output):
        with monkeypatch.context() as patch:
            for step in ("rename", "replace"):
                patch.setattr(os, step, refuse(getattr(os, step)))
            patch.setattr(publishing, "_exchange", refuse(lambda *_: False))
            if not exchange:
                patch.setattr(publishing, "_exchange", lambda *_: False)
            with raises(StoreError, "no-permission"):
                place.finish(output, overwrite=True)
        assert_same_bits(everything(tmp_path / name), make_matrix())
        found = place.find()
        assert found is not None
        place.finish(found[0], overwrite=True)
    assert_same_bits(everything(tmp_path / name), np.eye(4))
    assert left_behind(tmp_path) == []


def test_a_system_without_exchange_replaces_folders(
    tmp_path: Path, monkeypatch: Any
) -> None:
    save(tmp_path / "C.zarr", make_matrix())
    monkeypatch.setattr(publishing, "_exchange", lambda *_: False)
    write_output(tmp_path / "C.zarr", np.eye(4), overwrite=True)
    assert_same_bits(everything(tmp_path / "C.zarr"), np.eye(4))
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_target_that_came_up_meanwhile_stays(tmp_path: Path, name: str) -> None:
    with begun(tmp_path / name, np.eye(4)) as (place, output):
        save(tmp_path / name, make_matrix())
        with raises(StoreError, "output-exists"):
            place.finish(output, overwrite=False)
        assert_same_bits(everything(tmp_path / name), make_matrix())
        place.finish(output, overwrite=True)
    assert_same_bits(everything(tmp_path / name), np.eye(4))


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "C.npy").symlink_to(tmp_path / "disk" / "C.npy")
    write_output(tmp_path / "C.npy", make_matrix())
    assert (tmp_path / "C.npy").is_symlink()
    assert_same_bits(everything(tmp_path / "disk" / "C.npy"), make_matrix())
