"""What is not ours is neither replaced, nor removed, nor believed."""

import os
from contextlib import nullcontext
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from tests.support.command import contents
from tests.support.expect import raises
from tests.support.stored import begun, left_behind, make_matrix, save
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished, open_matrix
from twom_dist.store._strangers import find_stranger
from twom_dist.store.leftovers import remove_leftover

pytestmark = pytest.mark.usefixtures("here")
FOLDER = Path(".C.npy.unfinished")


def add(path):
    """Make an empty file, and the folders above it."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch()


@pytest.mark.parametrize(
    "other", ["notes.txt", "c/notes.txt", "0/zarr.json", "sub/zarr.json", "B/.zarray"]
)
@pytest.mark.parametrize("group", [False, True])
def test_a_store_that_holds_others_is_not_replaced(here, group, other):
    zarr.open_group("C.zarr", mode="w") if group else save("C.zarr", make_matrix())
    find_unfinished("C.zarr").check(overwrite=True)
    add(f"C.zarr/{other}")
    before = contents(here)
    with raises(StoreError, "output-holds-others"):
        find_unfinished("C.zarr").check(overwrite=True)
    assert contents(here) == before


def lay_out_as_a_job_does():
    """Make the hidden folder of C.npy as a stopped job leaves it."""
    with begun("C.npy", np.eye(4)):
        pass


def hidden(kind):
    """Turn what a job has left into what somebody else may have put there."""
    lay_out_as_a_job_does()
    (metadata,) = FOLDER.glob("*.zarr/zarr.json")
    target = Path("target")
    if kind == "open":
        FOLDER.chmod(0o777)
    elif kind == "open to a group":
        FOLDER.chmod(0o770)
    elif kind == "link":
        FOLDER.rename(target)
        FOLDER.symlink_to(target)
    elif kind == "link as lock":
        Path(FOLDER, "lock").unlink()
        Path(FOLDER, "lock").symlink_to(Path("made").absolute())
    elif kind == "pipe as lock":
        Path(FOLDER, "lock").unlink()
        os.mkfifo(Path(FOLDER, "lock"))
    elif kind == "link as manifest":
        metadata.rename(target)
        metadata.symlink_to(target.absolute())
    else:
        owned = {"folder": FOLDER, "lock": FOLDER / "lock", "manifest": metadata}
        os.chown(owned[kind], 4711, 4711)


ROOT_ALONE = pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")


@pytest.mark.parametrize(
    "kind",
    [
        *("open", "open to a group", "link"),
        *("link as lock", "pipe as lock", "link as manifest"),
        *(pytest.param(x, marks=ROOT_ALONE) for x in ("folder", "lock", "manifest")),
    ],
)
def test_what_others_may_have_written_is_not_continued(here, kind):
    hidden(kind)
    place, before = find_unfinished("C.npy"), sorted(here.rglob("*"))
    with raises(StoreError, "not-own"), place.lock():
        place.find()
    assert sorted(here.rglob("*")) == before
    # Nor removed, but for what is in a folder of ours.
    if "manifest" not in kind:
        with pytest.raises(StoreError):
            remove_leftover(place)
        assert sorted(here.rglob("*")) == before


def test_a_file_system_may_show_all_files_as_those_of_one_user(monkeypatch):
    """And none of them is a mark of another run; as NFS does that squashes users."""
    lay_out_as_a_job_does()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with find_unfinished("C.npy").lock():
        assert find_unfinished("C.npy").find() is not None
    assert left_behind() == [str(FOLDER)]


def test_what_is_unfinished_is_for_its_user_alone():
    mask = os.umask(0)
    try:
        with begun("C.zarr", np.eye(4)) as (place, output):
            assert os.stat(place.folder).st_mode & 0o777 == 0o700
            place.finish(output, overwrite=False)
    finally:
        os.umask(mask)
    assert os.stat("C.zarr").st_mode & 0o777 == 0o777


def test_attributes_of_others_are_no_provenance():
    for name in ("A.zarr", "A.h5"):
        save(name, make_matrix())
    zarr.open_array("A.zarr", mode="r+").attrs["twom_dist"] = {"x": 1}
    with h5py.File("A.h5", "r+") as file:
        file["matrix"].attrs["twom_dist"] = "not JSON"
    assert [open_matrix(x).provenance() for x in ("A.zarr", "A.h5")] == [{}, {}]
    for held in ({"complete": False}, {"complete": False, "id": 3}, [], "id", None):
        zarr.open_array("A.zarr", mode="r+").attrs["twom_dist"] = held
        whole = not isinstance(held, dict) or "id" not in held
        with nullcontext() if whole else raises(StoreError, "input-unfinished"):
            assert open_matrix("A.zarr").provenance() == {}


@pytest.mark.parametrize("name", [".zattrs", "g/.zattrs"])
def test_metadata_that_are_no_files_are_not_waited_for(name):
    group = zarr.open_group("Z.zarr", mode="w", zarr_format=2)
    group.create_array("g", data=np.eye(3))
    Path("Z.zarr", name).unlink(missing_ok=True)
    os.mkfifo(Path("Z.zarr", name))
    with raises(StoreError, "file-kind"):
        open_matrix("Z.zarr::g")


@pytest.mark.parametrize(
    "text",
    ['{"attributes": null}', "null", "[1]", "[" * 10**5, ""],
    ids=["no attributes", "nothing", "a list", "too deep", "a pipe"],
)
def test_whatever_calls_itself_a_store_is_looked_at(text):
    folder = Path(".C.npy.unfinished", "0123456789ab.zarr")
    folder.mkdir(parents=True, mode=0o700)
    if text:
        (folder / "zarr.json").write_text(text)
    else:
        os.mkfifo(folder / "zarr.json")
    assert find_stranger(".C.npy.unfinished", "C.npy") in ("", folder.name)
