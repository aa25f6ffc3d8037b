"""Outputs: what stands there is checked first, and stays until the new is whole."""

import os
import shutil
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from tests.support.command import contents
from tests.support.disk import failing
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
from twom_dist.store import find_unfinished

pytestmark = pytest.mark.usefixtures("here")
DTYPES = ["?", "i1", "u8", "f4", "c8", "c16"]
SHAPES = [(0, 3), (3, 0), (6, 4)]


@pytest.mark.parametrize("name", NAMES[:-1] + MEMBER_NAMES)
def test_what_was_written_is_read_bit_for_bit(name):
    zeros = np.full((4, 6), complex(-0.0, -0.0))
    zeros[2:, :3].view(np.uint64)[:] = 0x7FF8_0000_0000_1234  # a NaN with a payload
    # A member is written as the whole of its file is, which has every dtype.
    dtypes = DTYPES if name in ("C.npy", "C.h5", "C.zarr") else DTYPES[-1:]
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
    with h5py.File("C.h5") as file, np.load("C.npz") as archive:
        array = zarr.open_array("C.zarr", mode="r")
        read = [np.load("C.npy"), archive["g/C"], file["matrix"][:], array[:]]
        assert file["matrix"].chunks == array.chunks == (2, 3)
    for found in read:
        assert_same_bits(found, values)


# --- what is not replaced -------------------------------------------------------------


def hold(path, *names):
    """Store arrays of these names; of "v", a vector."""
    arrays = {x: np.zeros(3 if x == "v" else (2, 2)) for x in names}
    if path.endswith("npz"):
        np.savez(path, **arrays)
        return
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def add(other, group):
    """Make a store, and an empty file in it."""
    zarr.open_group("C.zarr", mode="w") if group else save("C.zarr", make_matrix())
    find_unfinished("C.zarr").check(overwrite=True)
    Path("C.zarr", other).parent.mkdir(parents=True, exist_ok=True)
    Path("C.zarr", other).touch()


def make_company():
    """Make a file of a matrix, and of what belongs to others."""
    with h5py.File("C.h5", "w") as file:
        file["g/C"] = make_matrix()
        file["g/other"] = np.arange(5)
        file["alias"] = file["g/other"]
        file["g"].attrs["about"] = "kept"
        file["soft"] = h5py.SoftLink("/g")
        file["type"] = np.dtype("c16")
    os.chmod("C.h5", 0o640)


def list_company():
    with h5py.File("C.h5") as file:
        assert file["alias"] == file["g/other"]
        assert (file["alias"][()] == np.arange(5)).all()
        assert file["g"].attrs["about"] == "kept"
        return [*file], [*file["g"]]


ADDED = ["notes.txt", "c/notes.txt", "0/zarr.json", "sub/zarr.json", "B/.zarray"]
HELD = [["A"], ["A", "B", "grp/A2"], ["v"], ["matrix", "A"]]
BESIDE = ["g", "g/other/C", "soft", "soft/C", "type", "type/C"]
KEPT = [
    *((partial(hold, x, *y), x) for x in ("C.h5", "C.npz") for y in HELD),
    *((partial(add, x, y), "C.zarr") for x in ADDED for y in (False, True)),
    *((partial(os.mkfifo, x), x) for x in ("D.npy", "D.h5")),
    (partial(os.mkdir, "C.npy"), "C.npy"),
    *((make_company, f"C.h5::{x}") for x in BESIDE),
]
OTHERS = [
    # Members are added to HDF5 files only.
    *((partial(save, x, np.eye(2)), x, "container-exists") for x in MEMBER_NAMES[:2]),
    (partial(os.mkfifo, "C.h5"), "C.h5::D", "file-kind"),
]


def test_what_holds_others_is_not_replaced(here):
    rows = [(*x, "output-holds-others") for x in KEPT] + OTHERS
    for number, (make, path, code) in enumerate(rows):
        (here / str(number)).mkdir()
        os.chdir(here / str(number))
        make()
        before = contents(Path())
        with raises(StoreError, code):
            find_unfinished(path).check(overwrite=True)
        assert contents(Path()) == before


@pytest.mark.parametrize("name", NAMES)
def test_what_exists_stays_until_the_new_is_whole(name):
    save(name, make_matrix())
    os.chmod(name, 0o750 if name == "C.zarr" else 0o640)
    mode = os.stat(name).st_mode
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
    assert os.stat(name).st_mode == mode
    assert left_behind() == []


@pytest.mark.parametrize("name", ["C.zarr", "C.npz"])
def test_what_cannot_be_put_in_place_keeps_both(name):
    save(name, make_matrix())

    def is_new(source, target):
        return target == os.path.abspath(name) and not source.endswith(".old")

    with begun(name, np.eye(4), overwrite=True) as (place, output):
        with (
            failing("rename", "replace", when=is_new),
            raises(StoreError, "disk-broken"),
        ):
            place.finish(output, overwrite=True)
        assert_same_bits(everything(name), make_matrix())
        found = place.find()
        assert found is not None
        place.finish(found[0], overwrite=True)
    assert_same_bits(everything(name), np.eye(4))
    assert left_behind() == []


def test_links_and_empty_folders_are_places_as_well():
    os.mkdir("disk")
    os.symlink("disk/C.npy", "C.npy")
    os.mkdir("C.zarr")
    for name in ("C.npy", "C.zarr"):
        write_output(name, make_matrix(), overwrite=True)
        assert_same_bits(everything(name), make_matrix())
    assert os.path.islink("C.npy")
    assert_same_bits(everything("disk/C.npy"), make_matrix())


# --- members of HDF5 files ------------------------------------------------------------


def test_a_member_is_added_or_replaced_and_all_else_stays():
    make_company()
    size = os.stat("C.h5").st_size
    with raises(StoreError, "output-exists"):
        find_unfinished("C.h5::g/C").check(overwrite=False)
    for _ in range(3):
        write_output("C.h5::g/C", np.eye(6), overwrite=True)
    write_output("C.h5::new/D", 2 * np.eye(6))
    held = ["alias", "g", "new", "soft", "type"]
    assert list_company() == (held, ["C", "other"])
    assert_same_bits(everything("C.h5::g/C"), np.eye(6))
    assert_same_bits(everything("C.h5::new/D"), 2 * np.eye(6))
    assert os.stat("C.h5").st_mode & 0o777 == 0o640
    # HDF5 takes the room of what was replaced; its chunks come with an index.
    assert os.stat("C.h5").st_size < size + 2**15
    assert left_behind() == []


def test_what_comes_into_a_container_meanwhile_is_not_lost():
    save("C.h5", make_matrix())
    with begun("C.h5", np.eye(4), overwrite=True) as (place, output):
        with h5py.File("C.h5", "a") as file:
            file["alias"] = file["matrix"]
            file["beside"] = h5py.ExternalLink("none.h5", "A")
        with raises(StoreError, "output-holds-others"):
            place.finish(output, overwrite=True)
    assert_same_bits(everything("C.h5::matrix"), make_matrix())
    shutil.rmtree(".C.h5.unfinished")
    os.unlink("C.h5")

    def write():
        with Path("C.h5").open("ab") as file:
            file.write(b"x")

    with begun("C.h5::D", np.eye(4)) as (place, output):
        for change in (make_company, write):
            with raises(StoreError, "container-changed"):
                place.finish(output, overwrite=False, commit=change)
        assert "D" not in list_company()[0]
        # A program that writes keeps the copy from being made.
        with h5py.File("C.h5", "a"), raises(StoreError, "file-busy"):
            place.finish(output, overwrite=False)
        place.finish(output, overwrite=False)
    assert "D" in list_company()[0]


def test_members_of_a_file_are_told_apart_while_they_are_made():
    make_company()
    with begun("C.h5::D", np.eye(4)) as (place, output):
        assert place.find()[0] == find_unfinished("C.h5").find()[0] == output
        other = find_unfinished("C.h5::E")
        assert other.find() is None
        with raises(StoreError, "member-unfinished"):
            other.check(overwrite=True)
        Path(output.store, "zarr.json").write_text("{")
        # Nobody can continue it.
        other.check(overwrite=True)
