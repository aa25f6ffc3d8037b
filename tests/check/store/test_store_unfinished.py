"""What is unfinished of an output: what counts, what is kept, and for whom."""

import ctypes
import errno
import fcntl
import os
import resource
import shutil
import time
from contextlib import nullcontext
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

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
from twom_dist.store import Output, find_unfinished, unfinished
from twom_dist.store import _publish as publishing
from twom_dist.store._errors import store_errors
from twom_dist.store._export import export_bytes
from twom_dist.store.unfinished import disk_bytes

pytestmark = pytest.mark.usefixtures("here")


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
        place.finish(output, overwrite=False)
    assert_same_bits(everything("C.npy"), np.eye(4))


def test_what_an_output_has_replaced_is_not_taken_for_unfinished():
    """As where a run is killed before it removes what it has replaced."""
    write_output("C.zarr", np.eye(4))
    with begun("C.zarr", 2 * np.eye(4), overwrite=True) as (place, output):
        output.complete()
        publishing.publish(output.store, os.path.abspath("C.zarr"))
        assert_same_bits(everything(output.store), np.eye(4))
        assert place.find() is None
        place.remove()
    assert_same_bits(everything("C.zarr"), 2 * np.eye(4))


@pytest.mark.parametrize("name", ["C.zarr", "C.npy"])
def test_a_kill_while_leftovers_are_removed_leaves_a_finished_output(monkeypatch, name):
    """After whatever file: it exists, and nothing is left that could be continued."""
    finish, left = publishing.publish, count()

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


def test_an_array_gets_its_name_when_its_metadata_are_there(monkeypatch):
    place = find_unfinished("C.zarr::g/C")
    output = place.output((4, 4), (2, 2), np.dtype("f8"))

    def fail(*_):
        raise OSError(errno.EIO, "as if killed")

    with place.lock():
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", fail)
            with raises(StoreError, "disk-broken"):
                output.create({})
        assert place.find() is None
        place.start(output, {})
        assert place.find() is not None
        place.finish(output, overwrite=False)
    assert_same_bits(everything("C.zarr::g/C"), np.zeros((4, 4)))


def test_a_chunk_that_cannot_be_synced_is_not_finished(monkeypatch):
    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with begun("C.npy", np.eye(4)) as (_, output):
        monkeypatch.setattr(os, "fsync", fail)
        with raises(StoreError, "disk-broken"):
            output.write(0, 0, np.ones((2, 3)))
        assert (0, 0) not in output.finished()


@pytest.mark.parametrize("name", ["C.zarr", "C.npy", "C.h5"])
def test_an_output_is_on_disk_before_it_gets_its_name(monkeypatch, name):
    """Or a power cut might leave the name of a file without its bytes."""
    events = []
    fsync = os.fsync

    def note_fsync(descriptor):
        events.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def rename(finished, target):
        events.append("named")
        publishing.publish(finished, target)

    with begun(name, np.eye(4)) as (place, output):
        made = [*Path(output.array).rglob("*/*"), Path(output.array, "zarr.json")]
        if name != "C.zarr":
            made = [Path(place.folder, name)]
        monkeypatch.setattr(os, "fsync", note_fsync)
        monkeypatch.setattr(unfinished, "publish", rename)
        place.finish(output, overwrite=False)
    named = events.index("named")
    assert {str(path) for path in made} <= {*events[:named]}
    assert os.getcwd() in events[named:]


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


def test_an_exchange_that_fails_is_told_from_a_system_that_has_none(monkeypatch):
    numbers = iter([errno.ENOSYS, errno.EINVAL, errno.EIO])

    def renameat2(*_):
        ctypes.set_errno(next(numbers))
        return -1

    library = SimpleNamespace(renameat2=renameat2)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    assert [publishing._exchange("C", "D") for _ in range(2)] == [False, False]
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:
        publishing._exchange("C", "D")
    assert caught.value.filename == "D"


@pytest.mark.parametrize(
    ("name", "error", "code"),
    [
        ("A.zarr", OSError(errno.EIO, "x"), "disk-broken"),
        ("s3://b/A.zarr", OSError(errno.EIO, "x"), "store-unreachable"),
        ("s3://b/A.zarr", PermissionError(errno.EACCES, "x"), "store-unreachable"),
        ("s3://b/A.zarr", FileNotFoundError("x"), "file-missing"),
        ("A.zarr", FileNotFoundError("x"), "file-missing"),
        ("A.zarr", ValueError("x"), "file-damaged"),
    ],
)
def test_advice_is_for_the_place_that_fails(name, error, code):
    with raises(StoreError, code) as caught, store_errors(name, "read"):
        raise error
    assert ("credentials" in caught.value.remedy) == name.startswith("s3")


def test_a_tile_that_cannot_be_read_is_not_taken_for_damaged(monkeypatch):
    """It may be there again when its disk is."""
    with begun("C.npy", np.eye(4)) as (_, output):
        there = output.finished()
        with monkeypatch.context() as patch:
            patch.setattr(Output, "open", partial(os.stat, "gone"))
            with raises(StoreError, "file-missing"):
                output.check(0, 0)
        assert output.finished() == there
        Path(output.array, "c/0/0").write_bytes(bytes(2 * 3 * 8 + 4))
        output.check(0, 0)
        assert output.finished() == there - {(0, 0)}


def test_room_for_an_export_is_taken_first():
    for name, copies in (("C.zarr", 0), ("C.npy", 1), ("C.npz", 2), ("C.h5", 1)):
        place = find_unfinished(name)
        output = place.output((256, 256), (128, 128), np.dtype("f8"))
        with place.lock():
            place.start(output, {})
            room = Path(place.folder, "room")
            found = room.stat().st_blocks * 512 if room.exists() else 0
            assert copies * output.nbytes <= found <= copies * 2 * output.nbytes
            place.remove()


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


def test_tiles_that_are_there_need_no_more_space(monkeypatch):
    with begun("C.npy", make_matrix((200, 300))) as (place, output):
        needed = output.nbytes + export_bytes(output, place.location)
        written = disk_bytes(place.folder)
        assert written > 0
        for free in (needed - written, needed - written - 1):
            left = SimpleNamespace(free=free)
            monkeypatch.setattr(shutil, "disk_usage", lambda _, left=left: left)
            enough = free == needed - written
            with nullcontext() if enough else raises(StoreError, "disk-full"):
                place.check_space(output)


def test_who_only_asks_for_a_lock_does_not_keep_a_run_out(monkeypatch):
    with begun("C.npy", np.eye(4)) as (place, _):
        pass
    with open(place.lock_path) as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        with raises(StoreError, "output-busy"), place.lock():
            pass
        end = partial(fcntl.flock, asking, fcntl.LOCK_UN)
        monkeypatch.setattr(time, "sleep", lambda _: end())
        with place.lock():
            assert place.watch().locked


@pytest.mark.parametrize("exchange", [os.replace, shutil.copyfile])
@pytest.mark.parametrize("kept", [True, False])
def test_tiles_that_were_exchanged_are_damaged(monkeypatch, exchange, kept):
    """Where files have attributes."""
    notes = {}

    def note(path, name, value):
        notes[os.stat(path).st_ino, name] = value

    def look(path, name):
        return notes[os.stat(path).st_ino, name]

    for function, name in ((note, "setxattr"), (look, "getxattr")):
        if kept:
            monkeypatch.setattr(os, name, function, raising=False)
        else:
            monkeypatch.delattr(os, name, raising=False)
    with begun("C.npy", make_matrix((4, 6), "f8")) as (_, output):
        for one, other in (("c/0/0", "aside"), ("c/1/1", "c/0/0"), ("aside", "c/1/1")):
            exchange(Path(output.array, one), Path(output.array, other))
        for i, j in np.ndindex(2, 2):
            output.check(i, j)
        assert len(output.finished()) == (2 if kept else 4)
