"""What is unfinished of an output: what counts, what is kept, and for whom."""

import fcntl
import os
from itertools import count
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

from tests.support.disk import failing, free_bytes, listing_syncs, once_named
from tests.support.expect import raises
from tests.support.stored import (
    assert_same_bits,
    begun,
    everything,
    left_behind,
    make_matrix,
    write_output,
)
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished

pytestmark = pytest.mark.usefixtures("here")
FOLDER = Path(".C.npy.unfinished")


def test_a_chunk_that_was_cut_or_has_gone_is_not_finished():
    with begun("C.npy", np.eye(4)) as (place, output):
        everywhere = output.list_finished()
        os.truncate(Path(output.array, "c/0/1"), 3)
        Path(output.array, "c/1/0").unlink()
        # As zarr leaves it, where it is killed.
        Path(output.array, "c/1/0.4711.partial").touch()
        assert everywhere - output.list_finished() == {(0, 1), (1, 0)}
        for i, j in ((0, 1), (1, 0)):
            output.write(i, j, np.eye(4)[output.region(i, j)])
        # One that cannot be read may be there again when its disk is.
        os.rename(output.array, "aside")
        with raises(StoreError, "file-missing"):
            output.check(0, 0)
        os.rename("aside", output.array)
        assert output.list_finished() == everywhere
        Path(output.array, "c/0/0").write_bytes(bytes(2 * 3 * 8 + 4))
        output.check(0, 0)
        assert output.list_finished() == everywhere - {(0, 0)}
        output.write(0, 0, np.eye(4)[output.region(0, 0)])
        place.finish(output, overwrite=False)
    assert_same_bits(everything("C.npy"), np.eye(4))


@pytest.mark.parametrize("name", ["C.zarr", "C.npy", "C.h5::D"])
def test_a_kill_while_leftovers_are_removed_leaves_a_finished_output(name):
    """After whatever file: it exists, and nothing is left that could be continued."""
    for left in count():
        when = once_named(name.partition("::")[0], left)
        with failing("unlink", "rmdir", when=when):
            write_output(name, np.eye(4), overwrite=True)
        place = find_unfinished(name)
        assert place.find() is None
        with raises(StoreError, "output-exists"):
            place.check(overwrite=False)
        if not left_behind():
            break
    assert left > 8
    assert_same_bits(everything(name), np.eye(4))


# --- what is on disk ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["C.zarr", "C.npy", "C.h5"])
def test_all_is_on_disk_before_it_counts(name):
    """Or a power cut might leave the name of a file without its bytes."""
    with begun(name, np.eye(4)) as (place, output):
        made = [*Path(output.array).rglob("*/*"), Path(output.array, "zarr.json")]
        if name != "C.zarr":
            made = [Path(place.folder, name)]
        with failing("fsync"), raises(StoreError, "disk-broken"):
            output.write(0, 0, np.ones((2, 3)))
        assert (0, 0) not in output.list_finished()
        with listing_syncs(name) as synced:
            output.write(0, 0, np.eye(4)[:2, :3])
            place.finish(output, overwrite=False)
    assert {(str(path), False) for path in made} <= {*synced}
    assert (os.getcwd(), True) in synced


@pytest.mark.parametrize(("name", "copies"), [("C.zarr", 1), ("C.h5", 2), ("C.npz", 3)])
def test_room_is_asked_for_first(name, copies):
    """Tiles that are there need no more."""

    def assert_needs(nbytes):
        with free_bytes() as disk:
            disk.free = nbytes
            place.check_space(output)
            disk.free -= 1
            with raises(StoreError, "disk-full"):
                place.check_space(output)

    place, values = find_unfinished(name), make_matrix((128, 128))
    output = place.output(values.shape, values.shape, values.dtype)
    assert_needs(copies * values.nbytes)
    assert os.listdir() == []
    output = place.output(values.shape, (32, 128), values.dtype)
    with place.lock():
        output.create({})
        output.write(0, 0, values[:32])
    files = [x for x in Path(place.folder).rglob("*") if x.is_file()]
    written = sum(x.stat().st_blocks * 512 for x in files)
    assert written >= 32 * 128 * 16
    assert_needs(copies * output.nbytes - written)


# --- locks ----------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_lock_that_its_run_has_removed_is_no_lock(again):
    """As where a run ends between another's opening of the file and its lock."""
    place, flock = find_unfinished("C.npy"), fcntl.flock

    def end_first(stream, how):
        patch.undo()
        place.remove()
        flock(stream, how)
        if again:
            os.mkdir(place.folder)
            Path(place.lock_path).touch()

    with pytest.MonkeyPatch.context() as patch:
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


def hide(kind):
    """Turn what a job has left into what somebody else may have put there."""
    with begun("C.npy", np.eye(4)):
        pass
    if kind.startswith("open"):
        FOLDER.chmod(0o777 if kind == "open" else 0o770)
    elif kind == "link":
        FOLDER.rename("target")
        FOLDER.symlink_to(Path("target").absolute())
    else:
        os.chown(FOLDER, 4711, 4711)


ROOT_ALONE = pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
GIVEN = pytest.param("folder", marks=ROOT_ALONE)


@pytest.mark.parametrize("kind", ["open", "open to a group", "link", GIVEN])
def test_what_others_may_have_written_is_not_continued(here, kind):
    """Nobody else can write to what a folder of its own holds."""
    hide(kind)
    place, before = find_unfinished("C.npy"), sorted(here.rglob("*"))
    with raises(StoreError, "not-own"), place.lock():
        place.find()
    assert sorted(here.rglob("*")) == before


def test_what_others_put_beside_the_tiles_stays():
    with begun("C.npy", np.eye(4)) as (place, output):
        notes = Path(place.folder, "notes.txt")
        notes.write_text("mine")
        place.finish(output, overwrite=False)
    assert [*notes.parent.iterdir()] == [notes]
    write_output("C.npy", np.eye(3), overwrite=True)
    assert notes.read_text() == "mine"


def test_the_only_copy_of_an_earlier_output_stays():
    """Killed between two renames, where the system cannot exchange names."""
    with begun("C.zarr", np.eye(3)) as (place, output):
        old = Path(place.folder, f"{Path(output.store).name}.old")
        old.mkdir()
    place.remove()
    with raises(StoreError, "folder-holds-others"):
        place.check(overwrite=True)
    assert old.exists()
    Path("C.zarr").mkdir()
    place.remove()
    assert not old.exists()


def test_what_is_unfinished_is_for_its_user_alone():
    mask = os.umask(0)
    try:
        with begun("C.zarr", np.eye(4)) as (place, output):
            assert os.stat(place.folder).st_mode & 0o777 == 0o700
            place.finish(output, overwrite=False)
    finally:
        os.umask(mask)
    assert os.stat("C.zarr").st_mode & 0o777 == 0o777
