"""Outputs: the place is checked first, and the old stays until the new is whole."""

import errno
import os
import shutil
from types import SimpleNamespace
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
from twom_dist.store import _publish as publishing
from twom_dist.store import find_unfinished, open_matrix

MEMBER_NAMES = ["C.zarr::g/C", "C.npz::C", "C.h5::g/C"]
DTYPES = ["?", "i1", "u2", "i4", "u8", "f4", "f8", "c8", "c16"]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (6, 4)]


# --- what is written ------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
def test_what_was_written_is_read_bit_for_bit(tmp_path, name):
    zeros = np.full((4, 6), complex(-0.0, -0.0))
    zeros[2:, :3].view(np.uint64)[:] = 0x7FF8_0000_0000_1234  # a NaN with a payload
    matrices = [zeros, *(make_matrix(dtype=dtype) for dtype in DTYPES)]
    for values in (*matrices, *map(make_matrix, SHAPES)):
        write_output(f"{tmp_path}/{name}", values)
        assert_same_bits(everything(f"{tmp_path}/{name}"), values)
        # The member may be left out, since it is the only one.
        file = tmp_path / name.partition("::")[0]
        assert_same_bits(everything(file), values)
        assert left_behind(tmp_path) == []
        shutil.rmtree(file) if file.is_dir() else file.unlink()


def test_the_usual_libraries_read_the_output(tmp_path):
    values = make_matrix(dtype="i4")
    for name in ("C.npy", "C.npz::g/C", "C.h5", "C.zarr"):
        write_output(f"{tmp_path}/{name}", values)
    assert_same_bits(np.load(tmp_path / "C.npy"), values)
    with np.load(tmp_path / "C.npz") as archive:
        assert_same_bits(archive["g/C"], values)
    with ZipFile(tmp_path / "C.npz") as archive:
        (info,) = archive.infolist()
        assert archive.testzip() is None
    assert (info.filename, info.compress_size) == ("g/C.npy", info.file_size)
    with h5py.File(tmp_path / "C.h5") as file:
        assert_same_bits(file["matrix"][:], values)
        assert file["matrix"].chunks == (2, 3)
    array = zarr.open_array(tmp_path / "C.zarr", mode="r")
    assert_same_bits(array[:], values)
    assert (array.metadata.zarr_format, array.chunks) == (3, (2, 3))
    assert array.compressors == ()
    assert open_matrix(tmp_path / "C.zarr").chunks == (2, 3)


# --- what exists ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_place_is_checked_first(tmp_path, monkeypatch, name):
    with raises(StoreError, "no-folder"):
        find_unfinished(tmp_path / "none" / name).check(overwrite=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=127))
    place = find_unfinished(tmp_path / name)
    place.check(overwrite=False)
    with raises(StoreError, "disk-full"):
        place.check_space(place.output((2, 4), (2, 4), np.dtype("c16")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
def test_what_exists_is_not_overwritten_by_chance(tmp_path, name):
    path = f"{tmp_path}/{name}"
    save(path, make_matrix())
    member = "::" in name
    code = "container-exists" if member else "output-exists"
    for overwrite in (False, True) if member else (False,):
        with raises(StoreError, code):
            find_unfinished(path).check(overwrite)


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
@pytest.mark.parametrize("old", [False, True])
def test_only_finishing_touches_the_target(tmp_path, name, old):
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
def test_what_cannot_be_put_in_place_keeps_both(tmp_path, monkeypatch, name, exchange):
    save(tmp_path / name, make_matrix())
    if not exchange:
        # As on a system that has none.
        monkeypatch.setattr(publishing, "_exchange", lambda *_: False)

    def refuse(step):
        def move(source, target):
            if target == str(tmp_path / name) and not source.endswith(".old"):
                raise PermissionError(errno.EACCES, "Permission denied")
            return step(source, target)

        return move

    with begun(tmp_path / name, np.eye(4), overwrite=True) as (place, output):
        with monkeypatch.context() as patch:
            steps = [(os, "rename"), (os, "replace"), (publishing, "_exchange")]
            for where, step in steps if exchange else steps[:2]:
                patch.setattr(where, step, refuse(getattr(where, step)))
            with raises(StoreError, "no-permission"):
                place.finish(output, overwrite=True)
        assert_same_bits(everything(tmp_path / name), make_matrix())
        found = place.find()
        assert found is not None
        place.finish(found[0], overwrite=True)
    assert_same_bits(everything(tmp_path / name), np.eye(4))
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_target_that_came_up_meanwhile_stays(tmp_path, name):
    with begun(tmp_path / name, np.eye(4)) as (place, output):
        save(tmp_path / name, make_matrix())
        with raises(StoreError, "output-exists"):
            place.finish(output, overwrite=False)
        assert_same_bits(everything(tmp_path / name), make_matrix())
        place.finish(output, overwrite=True)
    assert_same_bits(everything(tmp_path / name), np.eye(4))


def test_a_link_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "C.npy").symlink_to(tmp_path / "disk" / "C.npy")
    write_output(tmp_path / "C.npy", make_matrix())
    assert (tmp_path / "C.npy").is_symlink()
    assert_same_bits(everything(tmp_path / "disk" / "C.npy"), make_matrix())
