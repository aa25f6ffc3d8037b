"""What --overwrite does to an unfinished output, and to a finished one meanwhile."""

import errno
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client

import twom_dist as td
from tests.command import (
    CommandLine,
    assert_refused,
    contents,
    read,
    same_bits,
    save,
    save_operands,
)
from tests.distributed.test_resume import (
    OUTPUTS,
    RECORD,
    TILES,
    K,
    M,
    N,
    finished,
    hidden,
    multiply,
    stop_after,
)
from tests.expect import raises
from twom_dist.errors import (
    EngineUnavailableError,
    MemoryLimitError,
    PlanError,
    StoreError,
)
from twom_dist.jobs import recorder, update_files
from twom_dist.jobs.writing import write_tile
from twom_dist.store import _npz, create_matrix, open_journal
from twom_dist.store._publish import remove


@pytest.fixture
def files(tmp_path, monkeypatch, every_tile_recorded):
    """A, B and C0 in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return save_operands(M, K, N)


def refuse_busy(temporary, target):
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), temporary)


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


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("recorded", [True, False])
def test_what_lacks_only_its_place_is_not_discarded(
    files, capsys, monkeypatch, output, recorded
):
    """Also of a job that was too short to be recorded before it failed."""
    if not recorded:
        monkeypatch.setattr(recorder, "RECORD_SECONDS", 10)
    path = output.partition("::")[0]
    product = ("gemm", "A.zarr", "B.npy", "-o", output, "--workers", "0", "--overwrite")
    with monkeypatch.context() as patch:
        patch.setattr("twom_dist.store.writer.publish", refuse_busy)
        code, _, err = CommandLine(capsys)(*product, "--tile", "16")
    (left,) = Path().glob(f".{path}.*.partial")
    assert code == 1
    note, sentence = err.splitlines()
    assert re.search(r"30 of 30 tiles are kept in .* again with --resume to", note)
    assert f"{left.name}', which is kept (Device or resource busy); let the" in sentence
    before = contents(Path())
    # With another tile, too: all that is asked is whether it may go.
    for flags in ((), ("--tile", "20")):
        err = assert_refused(CommandLine(capsys)(*product, *flags))
        assert "and not put it in place; --resume does so, or remove '" in err
        assert f"{left.name}' to start anew\n" in err
    assert contents(Path()) == before
    code, out, err = CommandLine(capsys)(*product, "--resume")
    assert (code, err, "30 of them from before" in out) == (0, "", True)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert hidden() == []


def test_what_lacks_only_its_place_and_cannot_go_on_names_what_to_remove(
    files, monkeypatch
):
    """Overwriting would be refused: it must not be what is advised."""
    with monkeypatch.context() as patch:
        patch.setattr("twom_dist.store.writer.publish", refuse_busy)
        with pytest.raises(StoreError, match="which is kept"):
            multiply("C.npy")
    (left,) = Path().glob(".C.npy.*.partial")
    sentence = rf"remove '.*{re.escape(left.name)}' to start anew"
    for options in ({"num_moduli": 12}, {"tile": 20}):
        with pytest.raises((StoreError, PlanError), match=sentence):
            multiply("C.npy", resume=True, **options)
    np.save("B.npy", files[1] + 1)
    with pytest.raises(StoreError, match=rf"has changed since .*; {sentence}"):
        multiply("C.npy", resume=True)
    left.unlink()
    assert multiply("C.npy").resumed == 0


def test_an_engine_that_does_not_load_discards_nothing(files, capsys, monkeypatch):
    stop_after(5, multiply)
    before = contents(Path())

    def refuse(name):
        raise EngineUnavailableError("there is no folder; make one")

    monkeypatch.setattr("twom_dist.jobs.run.get_engine", refuse)
    for workers in ("0", "1"):
        flags = ("--overwrite", "--workers", workers, "--tile", "16")
        found = CommandLine(capsys)("gemm", "A.zarr", "B.npy", "-o", "C.zarr", *flags)
        assert assert_refused(found).endswith("there is no folder; make one\n")
        assert contents(Path()) == before


def test_a_record_that_cannot_be_begun_leaves_nothing(files, monkeypatch):
    def fail(self, entry):
        self._stream.write(b'{"subj')
        raise StoreError("the disk is full; free some of it")

    with monkeypatch.context() as patch:
        patch.setattr("twom_dist.store.journal.Journal._append", fail)
        with pytest.raises(StoreError, match="the disk is full"):
            multiply()
    assert hidden() == []
    multiply()
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_what_comes_up_while_a_matrix_is_packed_stays(files, monkeypatch):
    finish = _npz.finish

    def finish_slowly(draft):
        path = finish(draft)
        np.savez("C.npz", matrix=np.eye(2))
        return path

    with monkeypatch.context() as patch:
        patch.setattr(_npz, "finish", finish_slowly)
        with pytest.raises(StoreError, match="has come up since it was to be written"):
            multiply("C.npz")
    assert same_bits(read("C.npz"), np.eye(2))
    Path("C.npz").unlink()
    assert multiply("C.npz", resume=True).resumed == TILES


def test_what_lacks_only_its_place_goes_when_it_is_removed_by_hand(files, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("twom_dist.store.writer.publish", refuse_busy)
        with pytest.raises(StoreError, match="which is kept"):
            multiply("C.npy")
    with pytest.raises(StoreError, match="and not put it in place") as caught:
        multiply("C.npy")
    Path(re.search(r"remove '(.*?)'", str(caught.value))[1]).unlink()
    assert multiply("C.npy").resumed == 0
    assert hidden() == []


def test_what_another_version_has_left_is_discarded(files, capsys):
    stop_after(3, multiply)
    path = Path(RECORD)
    path.write_text(path.read_text().replace('"form": 1', '"form": 2'))
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--workers", "0")
    code, _, err = CommandLine(capsys)(*product, "--overwrite")
    assert (code, err) == (0, "twom-dist: discarding 3 tiles of an earlier run\n")
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


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
    names = r"resume=True, overwrite=True"
    stopped = stop_after(5, lambda **k: multiply(overwrite=True, **k))
    (note,) = stopped.__notes__
    assert f"run it again with {names} to continue" in note
    with pytest.raises(StoreError, match=f"continue it with {names}, or start anew"):
        multiply()
    with pytest.raises(StoreError, match=f"; continue that with {names}: what exists"):
        multiply(resume=True)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--workers", "0")
    for flags in ((), ("--resume",)):
        err = assert_refused(CommandLine(capsys)(*product, *flags))
        assert "with --resume --overwrite" in err
    assert same_bits(read("C.zarr"), np.eye(3))
    assert multiply(resume=True, overwrite=True).resumed == 5
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_a_job_that_is_refused_discards_nothing(files, monkeypatch):
    stop_after(4, multiply)
    Path("C.zarr").mkdir()
    Path("C.zarr/notes.txt").write_text("no matrix")
    before = contents(Path())
    with pytest.raises(StoreError, match="is no zarr matrix, so it is not overwritten"):
        multiply(overwrite=True)
    with monkeypatch.context() as patch:
        patch.setattr("distributed.system.MEMORY_LIMIT", 100 * 2**20)
        with pytest.raises(MemoryLimitError):
            multiply(overwrite=True)
    assert contents(Path()) == before


def test_the_disk_is_full_only_beside_what_is_discarded(files, monkeypatch):
    stop_after(4, multiply)
    before = contents(Path())

    def leave_free(count):
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=count))

    leave_free(1000)
    with pytest.raises(StoreError, match=r" free, with what is discarded; free some"):
        multiply(overwrite=True)
    assert contents(Path()) == before
    leave_free(TILES * 16**2 * 16 - 4 * 16**2 * 16)
    assert multiply(overwrite=True).resumed == 0


def test_workers_that_are_refused_discard_nothing(files, capsys, monkeypatch):
    stop_after(4, multiply)
    before = contents(Path())
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--overwrite")
    with dask.config.set({"temporary-directory": str(Path("B.npy").absolute())}):
        answer = CommandLine(capsys)(*product, "--workers", "1")
    assert "the worker processes did not start" in assert_refused(answer)
    assert contents(Path()) == before
    # Each has a folder that is not there for the others.
    blind = ("does not find a file", "Share it", "file-not-on-worker")
    monkeypatch.setattr("twom_dist.jobs.inputs._find_unlike", lambda *_: blind)
    with Client(n_workers=1, processes=False, dashboard_address=None) as client:
        with raises(StoreError, "file-not-on-worker"):
            multiply(client=client, overwrite=True)
        address = client.scheduler.address
        answer = CommandLine(capsys)(*product, "--scheduler", address)
    assert "does not find" in assert_refused(answer)
    assert contents(Path()) == before
    assert multiply(resume=True).resumed == 4


def test_what_is_half_discarded_is_not_continued(files, monkeypatch):
    stop_after(4, multiply)

    def remove_a_part(path):
        if os.path.exists(path):
            os.unlink(Path(path, "zarr.json"))
            raise OSError("as if killed")

    with monkeypatch.context() as patch:
        patch.setattr("twom_dist.store.journal.remove", remove_a_part)
        with pytest.raises(StoreError, match="could not be removed"):
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
    late = replace(late, draft=replace(late.draft, temporary=str(left)))
    refused = []

    def write_and_remove(path):
        # As a process that was not stopped with its run, while the files go.
        if os.path.exists(path):
            with pytest.raises(StoreError, match=r"[Nn]o such file"):
                write_tile(np.ones((16, 16)), late, (0, 0))
            refused.append(path)
        remove(path)

    monkeypatch.setattr("twom_dist.store.journal.remove", write_and_remove)
    multiply(output, overwrite=True)
    assert len(refused) == 1
    assert same_bits(read(output), td.gemm(*files[:2]))


@pytest.mark.parametrize("options", [{"overwrite": True}, {"resume": True}])
def test_what_a_kill_has_left_of_an_archive_goes(files, options):
    stop_after(7, lambda **k: multiply("C.npz", **k))
    (left,) = Path().glob("*.partial")
    left.with_suffix(".packed.partial").write_bytes(b"half an archive")
    assert len(hidden()) == 3
    multiply("C.npz", **options)
    assert same_bits(read("C.npz"), td.gemm(*files[:2]))
    assert hidden() == []
