"""``twom-dist clean``: what it lists, what it removes, and what it never touches."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.support.command import contents, read, save
from tests.support.disk import failing, once_named
from tests.support.expect import raises
from tests.support.jobs import stop_after
from tests.support.stored import begun, left_behind, write_output
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished


@pytest.fixture
def left(call, a):
    """Two jobs that were stopped, and the output of an earlier one."""
    np.save("C.npy", np.eye(2))
    product = {"chunks": 16, "op_b": "T", "overwrite": True}
    stop_after(
        2, lambda **x: td.multiply_files("A.npy", "A.npy", "C.npy", **product, **x)
    )
    stop_after(
        3, lambda **x: td.update_files(td.herk, "A.npy", "H.zarr", chunks=16, **x)
    )


def listed(call, *flags):
    """The code, and what is listed by the name of the output."""
    code, out, _ = call("clean", ".", "--json", *flags)
    assert out.count("\n") == 1
    left = json.loads(out)["leftovers"]
    return code, {os.path.basename(x["output"]): x for x in left}


def test_what_is_left_is_listed_and_removed_and_nothing_else(call, left):
    before = contents(Path())
    code, found = listed(call)
    assert (code, sorted(found)) == (0, ["C.npy", "H.zarr"])
    assert all(x["bytes"] > 0 and 0 <= x["idle_seconds"] < 300 for x in found.values())
    code, out, err = call("clean", ".")
    assert (code, err, contents(Path())) == (0, "", before)
    assert ".C.npy.unfinished: " in out
    Path(".notes.unfinished").mkdir()
    Path("target.npy.unfinished").mkdir()
    os.symlink("target.npy.unfinished", ".S.npy.unfinished")
    code, out, _ = call("clean", ".", "--yes")
    assert (code, out.count("; removed")) == (0, 2)
    assert left_behind() == [".S.npy.unfinished", ".notes.unfinished"]
    assert read("C.npy").shape == (2, 2)
    assert call("clean", ".") == (0, "no unfinished outputs in '.'\n", "")


def test_a_folder_that_a_run_is_in_stays_and_a_damaged_one_goes(call, left):
    for path in Path().glob(".*/*.zarr/zarr.json"):
        path.write_text("{")
    with find_unfinished("C.npy").lock():
        code, found = listed(call, "--yes")
        assert (code, found["C.npy"]["code"]) == (0, "output-busy")
    assert [name for name in found if found[name]["removed"]] == ["H.zarr"]
    assert left_behind() == [".C.npy.unfinished"]


STRANGERS = [
    *("notes.txt", "lock.zarr", "lock", "look/notes.txt", "C.npy/notes.txt"),
    *("0123456789ab.zarr", "0123456789ab.zarr/notes.txt"),
    *("*.zarr/notes.txt", "*.zarr/c/0/notes.txt"),
]


def test_a_folder_with_anything_else_stays(call, left, tmp_path):
    shutil.copytree(tmp_path, tmp_path.with_name("left"))
    for stranger in STRANGERS:
        shutil.rmtree(tmp_path)
        shutil.copytree(tmp_path.with_name("left"), tmp_path)
        os.chdir(tmp_path)
        inside = Path(".C.npy.unfinished")
        stranger = stranger.replace("*.zarr", next(inside.glob("*.zarr")).name)
        path = inside / stranger
        if path.parent != inside and path.parent.is_file():
            path.parent.unlink()
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        before = contents(inside)
        code, found = listed(call, "--yes")
        assert (code, found["C.npy"]["removed"]) == (1, False)
        assert stranger.removesuffix("/notes.txt") in found["C.npy"]["obstacle"]
        for overwrite in (False, True):
            with pytest.raises(StoreError):
                td.update_files(td.herk, "A.npy", "C.npy", overwrite=overwrite)
        assert contents(inside) == before
        assert found["H.zarr"]["removed"]
    shutil.rmtree(tmp_path.with_name("left"))


def test_a_matrix_that_no_job_has_made_stays(call, left):
    Path("C.npy").unlink()
    save(".C.npy.unfinished/0123456789ab.zarr", np.eye(3))
    code, found = listed(call, "--yes")
    assert (code, found["C.npy"]["removed"]) == (1, False)
    assert "0123456789ab.zarr" in found["C.npy"]["obstacle"]
    assert read(".C.npy.unfinished/0123456789ab.zarr").shape == (3, 3)


def test_what_others_put_beside_the_tiles_outlives_the_job(here):
    with begun("C.npy", np.eye(4)) as (place, output):
        notes = [Path(x, "notes.txt") for x in (place.folder, output.store)]
        for path in notes:
            path.write_text("mine")
        place.finish(output, overwrite=False)
    assert [x.read_text() for x in notes] == ["mine"] * 2
    assert (np.load("C.npy") == np.eye(4)).all()


def test_what_is_left_of_a_run_that_was_killed_after_its_end_is_removed(call):
    names = ["C.npy", "D.npz", "E.zarr", "G.h5"]
    for name in names:
        if name in ("C.npy", "E.zarr"):
            save(name, np.eye(3))
        with failing("unlink", "rmdir", when=once_named(name)):
            write_output(name, np.arange(12.0).reshape(3, 4), overwrite=True)
    # A store that was replaced is no unfinished output.
    assert find_unfinished("E.zarr").find() is None
    assert len(left_behind()) == len(names)
    code, found = listed(call, "--yes")
    assert (code, [x["removed"] for x in found.values()]) == (0, [True] * len(names))
    assert left_behind() == []
    for name in names:
        assert np.array_equal(read(name), np.arange(12.0).reshape(3, 4))


def test_the_only_copy_of_an_earlier_output_stays(call):
    """Killed between two renames, where the system cannot exchange names."""
    with begun("C.zarr", np.eye(3)) as (place, output):
        old = Path(place.folder, f"{Path(output.store).name}.old")
        old.mkdir()
        (old / "zarr.json").touch()
    code, found = listed(call, "--yes")
    assert (code, found["C.zarr"]["removed"]) == (1, False)
    with raises(StoreError, "folder-holds-others"):
        place.check(overwrite=True)
    assert left_behind() == [".C.zarr.unfinished"]
    Path("C.zarr").mkdir()
    assert listed(call, "--yes")[1]["C.zarr"]["removed"]
