"""Outputs: the place is checked first, and the old stays until the new is whole."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import zarr

from tests.support.expect import raises
from tests.support.stored import (
    MEMBER_NAMES,
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
from twom_dist.store import find_unfinished
from twom_dist.store._export import export_bytes

DTYPES = ["?", "i1", "u2", "i4", "u8", "f4", "f8", "c8", "c16"]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (6, 4)]


# --- what is written ------------------------------------------------------------------

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
def test_what_was_written_is_read_bit_for_bit(name):
    zeros = np.full((4, 6), complex(-0.0, -0.0))
    zeros[2:, :3].view(np.uint64)[:] = 0x7FF8_0000_0000_1234  # a NaN with a payload
    # A member is written as the whole of its file is, which has every dtype.
    dtypes = DTYPES if name in NAMES else DTYPES[-1:]
    matrices = [zeros, *(make_matrix(dtype=dtype) for dtype in dtypes)]
    for values in (*matrices, *map(make_matrix, SHAPES)):
        write_output(name, values)
        assert_same_bits(everything(name), values)
        # The member may be left out, since it is the only one.
        file = Path(name.partition("::")[0])
        assert_same_bits(everything(file), values)
        assert left_behind() == []
        shutil.rmtree(file) if file.is_dir() else file.unlink()


def test_the_usual_libraries_read_the_output():
    values = make_matrix(dtype="i4")
    for name in ("C.npy", "C.npz::g/C", "C.h5", "C.zarr"):
        write_output(name, values)
    assert_same_bits(np.load("C.npy"), values)
    with np.load("C.npz") as archive:
        assert_same_bits(archive["g/C"], values)
    with h5py.File("C.h5") as file:
        assert_same_bits(file["matrix"][:], values)
        assert file["matrix"].chunks == (2, 3)
    array = zarr.open_array("C.zarr", mode="r")
    assert_same_bits(array[:], values)
    assert (array.metadata.zarr_format, array.chunks) == (3, (2, 3))


# --- what exists ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "copies"), [("C.zarr", 1), ("C.h5", 2), ("C.npz", 3)])
def test_the_place_is_checked_first(monkeypatch, name, copies):
    with raises(StoreError, "no-folder"), find_unfinished(f"none/{name}").lock():
        pass
    place, disk = find_unfinished(name), SimpleNamespace(free=copies * 128)
    place.check(overwrite=False)
    output = place.output((2, 4), (2, 4), np.dtype("c16"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    place.check_space(output)
    disk.free -= 1
    with raises(StoreError, "disk-full"):
        place.check_space(output)
    assert os.listdir() == []


@pytest.mark.parametrize("name", NAMES)
def test_what_exists_stays_until_the_new_is_whole(name):
    save(name, make_matrix())
    with raises(StoreError, "output-exists"):
        find_unfinished(name).check(overwrite=False)
    with begun(name, np.eye(4), overwrite=True) as (place, output):
        # As where it came up meanwhile.
        with raises(StoreError, "output-exists"):
            place.finish(output, overwrite=False)
        assert_same_bits(everything(name), make_matrix())
        assert left_behind() == [f".{name}.unfinished"]
        place.finish(output, overwrite=True)
        with raises(StoreError, "file-missing"):
            output.write(0, 0, np.zeros((2, 3)))
    assert_same_bits(everything(name), np.eye(4))
    assert left_behind() == []


@pytest.mark.parametrize("name", MEMBER_NAMES[:2])
@pytest.mark.parametrize("overwrite", [False, True])
def test_members_are_added_to_hdf5_files_only(name, overwrite):
    save(name, make_matrix())
    with raises(StoreError, "container-exists"):
        find_unfinished(name).check(overwrite)


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("name", ["C.zarr", "C.npz"])
def test_what_cannot_be_put_in_place_keeps_both(monkeypatch, name, exchange):
    save(name, make_matrix())
    if not exchange:
        # As on a system that has none.
        monkeypatch.setattr(publishing, "_exchange", lambda *_: False)

    def refuse(step):
        def move(source, target):
            if target == os.path.abspath(name) and not source.endswith(".old"):
                raise PermissionError(errno.EACCES, "Permission denied")
            return step(source, target)

        return move

    with begun(name, np.eye(4), overwrite=True) as (place, output):
        with monkeypatch.context() as patch:
            steps = [(os, "rename"), (os, "replace"), (publishing, "_exchange")]
            for where, step in steps if exchange else steps[:2]:
                patch.setattr(where, step, refuse(getattr(where, step)))
            with raises(StoreError, "no-permission"):
                place.finish(output, overwrite=True)
        assert_same_bits(everything(name), make_matrix())
        found = place.find()
        assert found is not None
        place.finish(found[0], overwrite=True)
    assert_same_bits(everything(name), np.eye(4))
    assert left_behind() == []


def test_a_link_is_followed():
    os.mkdir("disk")
    os.symlink("disk/C.npy", "C.npy")
    write_output("C.npy", make_matrix())
    assert os.path.islink("C.npy")
    assert_same_bits(everything("disk/C.npy"), make_matrix())


@pytest.mark.parametrize("name", ["C.npy", "C.npz", "C.h5"])
def test_space_is_reserved_where_the_system_has_no_call_for_it(monkeypatch, name):
    """As on macOS."""
    monkeypatch.delattr(os, "posix_fallocate")
    values = make_matrix((500, 700))
    place = find_unfinished(name)
    output = place.output(values.shape, values.shape, values.dtype)
    with place.lock():
        place.start(output, {})
        assert os.path.getsize(place._room) == export_bytes(output, place.location)
        output.write(0, 0, values)
        place.finish(output, overwrite=False)
    assert_same_bits(everything(name), values)
