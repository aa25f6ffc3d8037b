"""Containers in the place of an output: replaced where they hold nothing else."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.support.command import contents
from tests.support.expect import raises
from tests.support.stored import (
    assert_same_bits,
    begun,
    everything,
    left_behind,
    make_matrix,
    save,
    write_output,
)
from twom_dist.errors import StoreError
from twom_dist.jobs.state import find_status
from twom_dist.store import find_unfinished

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("held", [["A"], ["A", "B", "grp/A2"], ["v"], ["matrix", "A"]])
@pytest.mark.parametrize("name", ["C.h5", "C.npz"])
def test_a_container_of_other_arrays_is_not_overwritten(name, held):
    """Nor one of vectors alone; zarr stores are tested with files of any kind."""
    arrays = {x: np.zeros(3 if x == "v" else (2, 2)) for x in held}
    if name == "C.npz":
        np.savez(name, **arrays)
    else:
        with h5py.File(name, "w") as file:
            for array, values in arrays.items():
                file[array] = values
    before = contents(Path())
    with raises(StoreError, "output-holds-others"):
        find_unfinished(name).check(overwrite=True)
    assert contents(Path()) == before


def test_only_matrices_are_overwritten():
    for name in ("C.npy", "C.zarr"):
        Path(name).mkdir()
    Path("C.zarr/thesis.tex").touch()
    for name in ("D.npy", "D.h5"):
        os.mkfifo(name)
    for name in ("C.npy", "C.zarr", "D.npy", "D.h5"):
        with raises(StoreError, "output-holds-others"):
            find_unfinished(name).check(overwrite=True)
    Path("C.zarr/thesis.tex").unlink()
    write_output("C.zarr", make_matrix(), overwrite=True)
    assert_same_bits(everything("C.zarr"), make_matrix())


def test_what_comes_into_a_container_meanwhile_is_not_lost():
    save("C.h5", make_matrix())
    with begun("C.h5", np.eye(4), overwrite=True) as (place, output):
        with h5py.File("C.h5", "a") as file:
            file["alias"] = file["matrix"]
            file["beside"] = h5py.ExternalLink("none.h5", "A")
        with raises(StoreError, "output-holds-others"):
            place.finish(output, overwrite=True)
    assert_same_bits(everything("C.h5::matrix"), make_matrix())
    assert left_behind() == [".C.h5.unfinished"]


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


def test_a_member_is_added_or_replaced_and_all_else_stays():
    make_company()
    size = os.stat("C.h5").st_size
    with raises(StoreError, "output-exists"):
        find_unfinished("C.h5::g/C").check(overwrite=False)
    for _ in range(3):
        write_output("C.h5::g/C", np.eye(6), overwrite=True)
    write_output("C.h5::new/D", 2 * np.eye(6))
    assert list_company() == (
        ["alias", "g", "new", "soft", "type"],
        ["C", "other"],
    )
    assert_same_bits(everything("C.h5::g/C"), np.eye(6))
    assert_same_bits(everything("C.h5::new/D"), 2 * np.eye(6))
    assert os.stat("C.h5").st_mode & 0o777 == 0o640
    # HDF5 takes the room of what was replaced; its chunks come with an index.
    assert os.stat("C.h5").st_size < size + 2**15
    assert left_behind() == []


@pytest.mark.parametrize(
    "member", ["g", "g/other/C", "soft", "soft/C", "type", "type/C"]
)
def test_nothing_but_a_dataset_is_replaced(member):
    make_company()
    before = contents(Path())
    with raises(StoreError, "output-holds-others"):
        find_unfinished(f"C.h5::{member}").check(overwrite=True)
    assert contents(Path()) == before


def test_what_is_no_file_takes_no_member():
    os.mkfifo("C.h5")
    with raises(StoreError, "file-kind"):
        find_unfinished("C.h5::D").check(overwrite=True)


def test_what_a_file_gets_while_a_member_is_made_is_not_lost():
    make_company()
    with begun("C.h5::D", np.eye(4)) as (place, output):

        def write():
            with Path("C.h5").open("ab") as file:
                file.write(b"x")

        with raises(StoreError, "container-changed"):
            place.finish(output, overwrite=False, commit=write)
        assert "D" not in list_company()[0]
        # A program that writes keeps the copy from being made.
        with h5py.File("C.h5", "a"), raises(StoreError, "file-busy"):
            place.finish(output, overwrite=False)
        place.finish(output, overwrite=False)
    assert "D" in list_company()[0]


def test_a_container_that_comes_up_meanwhile_is_not_lost():
    with begun("C.h5::D", np.eye(4)) as (place, output):
        with raises(StoreError, "container-changed"):
            place.finish(output, overwrite=False, commit=make_company)
        list_company()


def test_members_of_a_file_are_told_apart_while_they_are_made():
    make_company()
    with begun("C.h5::D", np.eye(4)) as (place, output):
        assert place.find()[0] == find_unfinished("C.h5").find()[0] == output
        other = find_unfinished("C.h5::E")
        assert other.find() is None
        with raises(StoreError, "member-unfinished"):
            other.check(overwrite=True)
        states = [find_status(f"C.h5::{member}").state for member in ("D", "g/C")]
        assert states == ["running", "finished"]
        with raises(StoreError, "no-such-member"):
            find_status("C.h5::E")
        Path(output.store, "zarr.json").write_text("{")
        # Nobody can continue it.
        other.check(overwrite=True)


@pytest.mark.parametrize("name", ["C.h5::D", "C.h5"])
def test_tiles_of_a_member_that_has_its_name_are_in_nobodys_way(monkeypatch, name):
    """As after a kill before they were removed."""
    with begun(name, np.eye(4)) as (place, output), monkeypatch.context() as patch:
        patch.setattr(type(place), "remove", lambda *_: None)
        place.finish(output, overwrite=False)
    assert left_behind() == [".C.h5.unfinished"]
    write_output("C.h5::E", 2 * np.eye(4))
    assert_same_bits(everything("C.h5::E"), 2 * np.eye(4))
    assert left_behind() == []
