"""What is unfinished of an output: what counts, what is kept, and for whom."""

import errno
import fcntl
import json
import os
import resource
import shutil
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path
from threading import Timer
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.stored import (
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
from twom_dist.store import find_unfinished, unfinished
from twom_dist.store._errors import store_errors

pytestmark = pytest.mark.usefixtures("here")
FOLDER = Path(".C.npy.unfinished")


def test_a_chunk_that_was_cut_or_has_gone_is_not_finished():
    with begun("C.npy", np.eye(4)) as (place, output):
        everywhere = output.finished()
        os.truncate(Path(output.array, "c/0/1"), 3)
        Path(output.array, "c/1/0").unlink()
        # As zarr leaves it, where it is killed.
        Path(output.array, "c/1/0.4711.partial").touch()
        assert everywhere - output.finished() == {(0, 1), (1, 0)}
        output.write(0, 1, np.eye(4)[output.region(0, 1)])
        output.write(1, 0, np.eye(4)[output.region(1, 0)])
        # One that cannot be read may be there again when its disk is.
        there = output.finished()
        os.rename(output.array, "aside")
        with raises(StoreError, "file-missing"):
            output.check(0, 0)
        os.rename("aside", output.array)
        assert output.finished() == there
        Path(output.array, "c/0/0").write_bytes(bytes(2 * 3 * 8 + 4))
        output.check(0, 0)
        assert output.finished() == there - {(0, 0)}
        output.write(0, 0, np.eye(4)[output.region(0, 0)])
        place.finish(output, overwrite=False)
    assert_same_bits(everything("C.npy"), np.eye(4))


@pytest.mark.parametrize("exchange", [os.replace, shutil.copyfile])
def test_tiles_that_were_exchanged_are_damaged(monkeypatch, exchange):
    """Where files have attributes."""
    notes = {}

    def note(path, name, value):
        notes[os.stat(path).st_ino, name] = value

    def look(path, name):
        return notes[os.stat(path).st_ino, name]

    monkeypatch.setattr(os, "setxattr", note, raising=False)
    monkeypatch.setattr(os, "getxattr", look, raising=False)
    with begun("C.npy", make_matrix((4, 6), "f8")) as (_, output):
        for one, other in (("c/0/0", "aside"), ("c/1/1", "c/0/0"), ("aside", "c/1/1")):
            exchange(Path(output.array, one), Path(output.array, other))
        for i, j in np.ndindex(2, 2):
            output.check(i, j)
        assert len(output.finished()) == 2


@pytest.mark.parametrize("name", ["C.zarr", "C.npy"])
def test_a_kill_while_leftovers_are_removed_leaves_a_finished_output(monkeypatch, name):
    """After whatever file: it exists, and nothing is left that could be continued."""
    finish, left = unfinished.publish, count()

    def stop(step, *names, **options):
        if not next(removals):
            raise OSError(errno.EIO, "as if killed")
        step(*names, **options)

    def publish(*names):
        finish(*names)
        for step in ("unlink", "rmdir"):
            patch.setattr(os, step, partial(stop, getattr(os, step)))

    while True:
        removals = chain(repeat(True, next(left)), repeat(False))
        with monkeypatch.context() as patch:
            patch.setattr(unfinished, "publish", publish)
            write_output(name, np.eye(4), overwrite=True)
        place = find_unfinished(name)
        assert place.find() is None
        with raises(StoreError, "output-exists"):
            place.check(overwrite=False)
        if not left_behind():
            break
    assert next(left) > 8


def test_a_folder_that_holds_part_of_an_array_beside_its_output():
    save("C.npy", np.eye(4))
    place = find_unfinished("C.npy")
    with place.lock():
        Path(place.folder, "0123456789ab.zarr/c/0").mkdir(parents=True)
        assert place.find() is None
        Path("C.npy").unlink()
        with raises(StoreError, "unfinished-damaged"):
            place.find()


# --- what is on disk ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["C.zarr", "C.npy", "C.h5"])
def test_all_is_on_disk_before_it_counts(monkeypatch, name):
    """Or a power cut might leave the name of a file without its bytes."""
    events, fsync, publish = [], os.fsync, unfinished.publish

    def note_fsync(descriptor):
        events.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def note_name(*given):
        events.append("named")
        publish(*given)

    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with begun(name, np.eye(4)) as (place, output):
        made = [*Path(output.array).rglob("*/*"), Path(output.array, "zarr.json")]
        if name != "C.zarr":
            made = [Path(place.folder, name)]
        monkeypatch.setattr(os, "fsync", fail)
        with raises(StoreError, "disk-broken"):
            output.write(0, 0, np.ones((2, 3)))
        assert (0, 0) not in output.finished()
        monkeypatch.setattr(os, "fsync", note_fsync)
        output.write(0, 0, np.eye(4)[:2, :3])
        monkeypatch.setattr(unfinished, "publish", note_name)
        place.finish(output, overwrite=False)
    named = events.index("named")
    assert {str(path) for path in made} <= {*events[:named]}
    assert os.getcwd() in events[named:]


@pytest.mark.parametrize(("name", "copies"), [("C.zarr", 1), ("C.h5", 2), ("C.npz", 3)])
def test_room_is_asked_for_and_taken_first(monkeypatch, name, copies):
    """Tiles that are there need no more."""
    disk = SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)

    def assert_needs(nbytes):
        disk.free = nbytes
        place.check_space(output)
        disk.free -= 1
        with raises(StoreError, "disk-full"):
            place.check_space(output)

    place, values = find_unfinished(name), make_matrix((128, 128))
    output = place.output(values.shape, values.shape, values.dtype)
    assert_needs(copies * values.nbytes)
    assert os.listdir() == []
    for _ in range(2):
        with place.lock():
            place.start(output, {})
            room = Path(place.folder, "room")
            taken = room.stat().st_blocks * 512 if room.exists() else 0
            assert copies - 1 <= taken / values.nbytes <= 2 * (copies - 1)
            place.remove()
        # As on macOS.
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    output = place.output(values.shape, (32, 128), values.dtype)
    with place.lock():
        output.create({})
        output.write(0, 0, values[:32])
    files = [x for x in Path(place.folder).rglob("*") if x.is_file()]
    written = sum(x.stat().st_blocks * 512 for x in files)
    assert written >= 32 * 128 * 16
    assert_needs(copies * output.nbytes - written)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_may_not_grow(name):
    place, values = find_unfinished(name), np.ones((256, 256))
    output = place.output(values.shape, (256, 256), values.dtype)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        with place.lock():
            with raises(StoreError, "file-size-limit"):
                place.start(output, {})
                output.write(0, 0, values)
            place.remove()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("name", "error", "code"),
    [
        ("A.zarr", OSError(errno.EIO, "x"), "disk-broken"),
        ("s3://b/A.zarr", OSError(errno.EIO, "x"), "store-unreachable"),
        ("s3://b/A.zarr", PermissionError(errno.EACCES, "x"), "store-unreachable"),
        ("s3://b/A.zarr", FileNotFoundError("x"), "file-missing"),
        ("A.zarr", FileNotFoundError("x"), "file-missing"),
        ("A.zarr", ValueError(10**7 * "x"), "file-damaged"),
    ],
)
def test_advice_is_for_the_place_that_fails(name, error, code):
    with raises(StoreError, code) as caught, store_errors(name, "read"):
        raise error
    assert ("credentials" in caught.value.remedy) == name.startswith("s3")
    assert len(str(caught.value)) < 1000


# --- locks ----------------------------------------------------------------------------


def test_a_lock_that_its_run_has_removed_is_no_lock(monkeypatch):
    """As where a run ends between another's opening of the file and its lock."""
    place, flock = find_unfinished("C.npy"), fcntl.flock

    def end_first(stream, how):
        patch.undo()
        place.remove()
        flock(stream, how)
        if again:
            os.mkdir(place.folder)
            Path(place.lock_path).touch()

    for again in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", end_first)
            with raises(StoreError, "output-busy"), place.lock():
                pass
        # What is there now is of the run that made it.
        assert left_behind() == [".C.npy.unfinished"] * again


def test_who_only_asks_for_a_lock_does_not_keep_a_run_out():
    with begun("C.npy", np.eye(4)) as (place, _):
        pass
    with open(place.lock_path) as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        with raises(StoreError, "output-busy"), place.lock():
            pass
        end = Timer(0.02, fcntl.flock, (asking, fcntl.LOCK_UN))
        end.start()
        with place.lock():
            assert place.watch().locked
        end.join()


# --- what is not ours -----------------------------------------------------------------


def hidden(kind):
    """Turn what a job has left into what somebody else may have put there."""
    with begun("C.npy", np.eye(4)):
        pass
    (metadata,) = FOLDER.glob("*.zarr/zarr.json")
    target, lock = Path("target"), FOLDER / "lock"
    if kind.startswith("open"):
        FOLDER.chmod(0o777 if kind == "open" else 0o770)
    elif kind.endswith("as lock"):
        lock.unlink()
        os.mkfifo(lock) if "pipe" in kind else lock.symlink_to(target.absolute())
    elif kind.startswith("link"):
        moved = metadata if "manifest" in kind else FOLDER
        moved.rename(target)
        moved.symlink_to(target.absolute())
    else:
        owned = {"folder": FOLDER, "lock": lock, "manifest": metadata}
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
def test_what_others_may_have_written_is_not_continued(here, call, kind):
    hidden(kind)
    place, before = find_unfinished("C.npy"), sorted(here.rglob("*"))
    with raises(StoreError, "not-own"), place.lock():
        place.find()
    assert sorted(here.rglob("*")) == before
    # Nor removed, but for what is in a folder of ours.
    if "manifest" not in kind:
        call("clean", here, "--yes")
        assert sorted(here.rglob("*")) == before


def test_a_file_system_may_show_all_files_as_those_of_one_user(monkeypatch):
    """And none of them is a mark of another run; as NFS does that squashes users."""
    with begun("C.npy", np.eye(4)):
        pass
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


@cases("text", ['{"attributes": null}', "null", "[1]", "[" * 10**5, ""])
def test_whatever_calls_itself_a_store_is_looked_at(here, call, text):
    folder = FOLDER / "0123456789ab.zarr"
    folder.mkdir(parents=True, exist_ok=True)
    FOLDER.chmod(0o700)
    (FOLDER / "lock").touch()
    (folder / "zarr.json").unlink(missing_ok=True)
    if text:
        (folder / "zarr.json").write_text(text)
    else:
        os.mkfifo(folder / "zarr.json")
    (found,) = json.loads(call("clean", here, "--json")[1])["leftovers"]
    assert found["obstacle"] == "" or folder.name in found["obstacle"]
