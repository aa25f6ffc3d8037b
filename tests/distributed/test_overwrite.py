"""What --overwrite does to an unfinished output, and to a finished one meanwhile."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.command import (
    CommandLine,
    assert_refused,
    contents,
    read,
    same_bits,
    save,
)
from tests.expect import raises
from tests.jobs import (
    OUTPUTS,
    TILES,
    M,
    N,
    change_form,
    finished,
    hidden,
    multiply,
    small_cluster,
    stop_after,
)
from twom_dist.errors import (
    EngineUnavailableError,
    MemoryLimitError,
    PlanError,
    StoreError,
)
from twom_dist.jobs import begin, multiply_files, open_job, recorder, run, update_files
from twom_dist.jobs.writing import write_tile
from twom_dist.store import Journal, _npz, create_matrix, journal, open_journal
from twom_dist.store._publish import remove

JOURNAL = Path(".C.zarr.resume")

pytestmark = pytest.mark.usefixtures("every_tile_recorded")


def take_place(output):
    """Return a callback that puts something in the place of an output at the end."""

    def come_up(progress):
        if progress.done == TILES:
            Path(output).mkdir()
            Path(output, "notes.txt").write_text("not a matrix")

    return come_up


def leave_whole(output="C.npy", **options):
    """Finish all tiles of an output that cannot be put in its place; return them."""
    path = output.partition("::")[0]
    with pytest.raises(StoreError):
        multiply(output, progress=take_place(path), **options)
    shutil.rmtree(path)
    (left,) = Path().glob(f".{path}.*.partial")
    return left


# --- what is unfinished ---------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_unfinished_output_is_discarded(files, output):
    stop_after(7, lambda **k: multiply(output, num_moduli=12, **k))
    summary = multiply(output, overwrite=True)
    assert (summary.resumed, summary.discarded) == (0, 7)
    assert "5 x 6 tiles, 7 from before discarded (" in str(summary)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert hidden() == []


@pytest.mark.parametrize("quiet", [False, True])
def test_the_command_says_what_it_discards(files, capsys, quiet):
    stop_after(3, lambda **k: update_files("herk", "A.zarr", "C.zarr", tile=16, **k))
    flags = ("--overwrite", "--workers", "0", "--tile", "16")
    flags += ("--quiet",) if quiet else ()
    code, out, err = CommandLine(capsys)("herk", "A.zarr", "-o", "C.zarr", *flags)
    said = "twom-dist: discarding 3 of 15 tiles of an earlier run\n"
    assert (code, err) == (0, "" if quiet else said)
    assert ("3 from before discarded" in out) != quiet
    assert same_bits(read("C.zarr"), td.herk(files[0]))
    assert hidden() == []


def test_what_another_version_has_left_is_discarded(files, capsys):
    stop_after(3, multiply)
    change_form(JOURNAL)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--workers", "0")
    code, _, err = CommandLine(capsys)(*product, "--overwrite")
    assert (code, err) == (0, "twom-dist: discarding 3 tiles of an earlier run\n")
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


@pytest.mark.parametrize("options", [{"overwrite": True}, {"resume": True}])
def test_what_a_kill_has_left_of_an_archive_goes(files, options):
    stop_after(7, lambda **k: multiply("C.npz", **k))
    (left,) = Path().glob("*.partial")
    left.with_suffix(".packed.partial").write_bytes(b"half an archive")
    assert len(hidden()) == 3
    multiply("C.npz", **options)
    assert same_bits(read("C.npz"), td.gemm(*files[:2]))
    assert hidden() == []


def test_what_is_half_discarded_is_not_continued(files, monkeypatch):
    stop_after(4, multiply)

    def remove_a_part(path):
        if path.endswith(".partial") and os.path.exists(path):
            os.unlink(Path(path, "zarr.json"))
            raise OSError("as if killed")
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(journal, "remove", remove_a_part)
        with pytest.raises(StoreError):
            multiply(overwrite=True)
    assert open_journal("C.zarr") is None
    assert len(hidden()) == 1
    assert multiply(resume=True).resumed == 0


@pytest.mark.parametrize("output", ["C.zarr", "C.npy"])
def test_what_is_discarded_is_out_of_reach_at_once(files, output, monkeypatch):
    stop_after(4, lambda **k: multiply(output, **k))
    (left,) = Path().glob("*.partial")
    Path("other").mkdir()
    late = create_matrix(f"other/{output}", (M, N), "c16", (16, 16))
    late = replace(late, temporary=str(left))
    refused = []

    def write_and_remove(path):
        # As a process that was not stopped with its run, while the files go.
        if path.endswith(".partial") and os.path.exists(path):
            with raises(StoreError, "file-missing"):
                write_tile(np.ones((16, 16)), (0, 0), late)
            refused.append(path)
        remove(path)

    monkeypatch.setattr(journal, "remove", write_and_remove)
    multiply(output, overwrite=True)
    assert len(refused) == 1
    assert same_bits(read(output), td.gemm(*files[:2]))


# --- what is whole and not in its place -----------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("recorded", [True, False])
def test_what_lacks_only_its_place_is_not_discarded(
    files, capsys, monkeypatch, output, recorded
):
    """Also of a job that was too short to be recorded before it failed."""
    if not recorded:
        monkeypatch.setattr(recorder, "RECORD_SECONDS", 10)
    left = leave_whole(output, overwrite=True)
    before = contents(Path())
    product = ("gemm", "A.zarr", "B.npy", "-o", output, "--workers", "0", "--overwrite")
    # With another tile, too: all that is asked is whether it may go.
    for tile in (16, 20):
        with raises(StoreError, "unplaced-output") as caught:
            multiply(output, overwrite=True, tile=tile)
        assert left.name in caught.value.problem
    assert contents(Path()) == before
    code, out, err = CommandLine(capsys)(*product, "--resume")
    assert (code, err, "30 of them from before" in out) == (0, "", True)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert hidden() == []


def test_what_lacks_only_its_place_and_cannot_go_on_names_what_to_remove(files):
    """Overwriting would be refused: it must not be what is advised."""
    left = leave_whole()
    for options, code in (
        ({"num_moduli": 12}, "unfinished-differs-whole"),
        ({"tile": 20}, "tile-differs-whole"),
    ):
        with pytest.raises((StoreError, PlanError)) as caught:
            multiply("C.npy", resume=True, **options)
        assert caught.value.code == code
        assert left.name in caught.value.problem
        assert "overwrite" not in caught.value.remedy
    np.save("B.npy", files[1] + 1)
    with raises(StoreError, "unfinished-input-changed-whole"):
        multiply("C.npy", resume=True)
    left.unlink()
    assert multiply("C.npy").resumed == 0
    assert hidden() == []


def test_what_comes_up_while_a_matrix_is_packed_stays(files, monkeypatch):
    finish = _npz.finish

    def finish_slowly(draft):
        path = finish(draft)
        np.savez("C.npz", matrix=np.eye(2))
        return path

    with monkeypatch.context() as patch:
        patch.setattr(_npz, "finish", finish_slowly)
        with raises(StoreError, "output-came-up"):
            multiply("C.npz")
    assert same_bits(read("C.npz"), np.eye(2))
    Path("C.npz").unlink()
    assert multiply("C.npz", resume=True).resumed == TILES


# --- beside a finished output ---------------------------------------------------------


def test_a_finished_output_stays_until_the_new_one_is_whole(files):
    save("C.zarr", np.eye(3))
    stop_after(5, lambda **k: multiply(overwrite=True, **k))
    stop_after(2, lambda **k: multiply(overwrite=True, **k))
    assert len(finished()) == 2
    assert same_bits(read("C.zarr"), np.eye(3))
    multiply(overwrite=True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert hidden() == []


def test_beside_a_finished_output_resume_is_named_with_overwrite(files, capsys):
    """It would be refused alone, and overwrite alone discards what was kept."""
    save("C.zarr", np.eye(3))
    stopped = stop_after(5, lambda **k: multiply(overwrite=True, **k))
    names = "resume and overwrite"
    assert names in stopped.__notes__[0]
    for options, code in (
        ({}, "unfinished-beside-output"),
        ({"resume": True}, "resume-beside-output"),
    ):
        with raises(StoreError, code) as caught:
            multiply(**options)
        assert names in caught.value.remedy
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--workers", "0")
    for flags in ((), ("--resume",)):
        err = assert_refused(CommandLine(capsys)(*product, *flags))
        assert names in err
    assert same_bits(read("C.zarr"), np.eye(3))
    assert multiply(resume=True, overwrite=True).resumed == 5
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


# --- what is refused discards nothing -------------------------------------------------


def test_an_engine_that_does_not_load_discards_nothing(files, capsys, monkeypatch):
    stop_after(5, multiply)
    before = contents(Path())

    def refuse(name):
        raise EngineUnavailableError("there is no compiler", "Install one", "x")

    monkeypatch.setattr(run, "get_engine", refuse)
    for workers in ("0", "1"):
        flags = ("--overwrite", "--workers", workers, "--tile", "16")
        found = CommandLine(capsys)("gemm", "A.zarr", "B.npy", "-o", "C.zarr", *flags)
        assert "there is no compiler" in assert_refused(found)
        assert contents(Path()) == before


def test_a_journal_that_cannot_be_begun_leaves_nothing(files, monkeypatch):
    def fail(self, entry):
        self._stream.write(b'{"subj')
        raise StoreError("the disk is full", "Free some of it", "disk-full")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_append", fail)
        with raises(StoreError, "disk-full"):
            multiply()
    assert hidden() == []
    multiply()
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_a_job_that_is_refused_discards_nothing(files):
    stop_after(4, multiply)
    Path("C.zarr").mkdir()
    Path("C.zarr/notes.txt").write_text("not a matrix")
    before = contents(Path())
    with raises(StoreError, "output-no-matrix"):
        multiply(overwrite=True)
    job = open_job("gemm", "A.zarr", "B.npy", "C.zarr", overwrite=True)
    with raises(MemoryLimitError, "memory"):
        begin(job, small_cluster(2**10))
    assert contents(Path()) == before


def test_the_disk_is_full_only_beside_what_is_discarded(files, monkeypatch):
    stop_after(4, multiply)
    before = contents(Path())

    def leave_free(count):
        free = SimpleNamespace(free=count)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: free)

    leave_free(1000)
    with raises(StoreError, "disk-full"):
        multiply(overwrite=True)
    assert contents(Path()) == before
    leave_free(TILES * 16**2 * 16 - 4 * 16**2 * 16)
    assert multiply(overwrite=True).resumed == 0


def test_workers_that_are_refused_discard_nothing(files, client, capsys):
    # Each process finds the folder that it works in there.
    paths = ("/proc/self/cwd/A.zarr", "B.npy")
    stop_after(4, lambda **k: multiply_files(*paths, "C.zarr", tile=16, **k))
    before = contents(Path())
    product = ("gemm", *paths, "-o", "C.zarr", "--overwrite")
    with dask.config.set({"temporary-directory": str(Path("B.npy").absolute())}):
        assert_refused(CommandLine(capsys)(*product, "--workers", "1"))
    assert contents(Path()) == before
    with raises(StoreError, "file-not-on-worker"):
        multiply_files(*paths, "C.zarr", tile=16, client=client, overwrite=True)
    address = client.scheduler.address
    assert_refused(CommandLine(capsys)(*product, "--scheduler", address))
    assert contents(Path()) == before
    assert multiply_files(*paths, "C.zarr", resume=True).resumed == 4
