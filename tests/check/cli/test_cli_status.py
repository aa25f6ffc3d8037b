"""``twom-dist status``: how far jobs are, from what lies at their outputs."""

import json
import os
import re
import shlex
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import twom_dist as td
from tests.support.buckets import save as save_at_url
from tests.support.command import make, read
from tests.support.expect import raises
from tests.support.jobs import OUTPUTS, at, multiply, stop_after
from twom_dist.api.files import multiply_files, update_files
from twom_dist.cli import main
from twom_dist.cli.spelling import spell_command
from twom_dist.cli.status import _list_rows
from twom_dist.errors import StoreError
from twom_dist.jobs import driver, state
from twom_dist.jobs.state import find_status
from twom_dist.store import Signs, Unfinished, _locks, unfinished


def leave(run, tiles=2):
    """Stop a job when so many tiles are there."""
    stop_after(tiles, run)


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_job_is_running_then_stopped_then_finished(files, call, output):
    with raises(StoreError, "no-job"):
        find_status(output)
    seen = []
    leave(partial(multiply, output))
    multiply(output, progress=at(20, lambda: seen.append(find_status(output))))
    (running,) = seen
    assert running.state == "running"
    assert 20 <= running.done < running.tiles == 30
    assert running.host == os.uname().nodename
    assert running.phase == "multiplying"
    assert running.since - 1 < running.last < time.time() + 1
    assert running.seconds_left * running.tiles_per_second == pytest.approx(
        30 - running.done
    )
    assert (running.shape, running.tile_shape) == ((70, 90), (16, 16))
    code, out, _ = call("status", output, "--json")
    assert (code, json.loads(out)["state"]) == (0, "finished")


def test_a_stopped_job_says_what_continues_it(call, files):
    given = ["--alpha", "2j", "--op-b", "T", "--accuracy", "1e-13", "--no-equilibrate"]
    given += ["--n-workers", "0", "--memory-limit", str(2**31)]
    typed = ["gemm", "A.zarr", "A.zarr", "-o", "C.npy", *given]
    given += ["--chunks", "16"]
    typed += ["--overwrite", "--chunks", "16"]
    with pytest.MonkeyPatch.context() as patch:
        # The third tile finds the disk full.
        patch.setattr(os, "fsync", fail_after(8))
        code, _, err = call(*typed)
    assert code == 1, err
    code, out, _ = call("status", "C.npy")
    assert code == 1
    _, stopped, *rows, last = out.splitlines()
    assert stopped.split() == ["state", "stopped"]
    assert re.search(r"^left +would take \d+s$", "\n".join(rows), re.M)
    command = shlex.split(last.removeprefix("continue"))
    folder = os.getcwd()
    assert command[:4] == ["twom-dist", "gemm", *[f"{folder}/A.zarr"] * 2]
    assert command[4:] == ["-o", f"{folder}/C.npy", *given]
    code, _, err = call(*command[1:])
    assert code == 0
    assert re.match(r"twom-dist: continues on .+, with \d+ of \d+ tiles kept\n", err)
    assert call("status", "C.npy")[0] == 0


def test_files_of_a_command_are_absolute_and_numbers_plain(here):
    typed = "gemm A.zarr B.npy -o C.h5::C --diag w.h5::w --alpha=1 --beta=1-2j"
    command = main.commands["gemm"].make_context("gemm", typed.split()[1:])
    here = os.getcwd()
    assert spell_command(command, ()) == (
        f"twom-dist gemm {here}/A.zarr {here}/B.npy -o {here}/C.h5::C "
        f"--alpha 1.0 --beta 1-2j --diag {here}/w.h5::w"
    )


def fail_after(count):
    """Sync files so often, and then fail as on a full disk."""
    sync, left = os.fsync, [count]

    def fsync(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, os.strerror(28))
        sync(descriptor)

    return fsync


@pytest.mark.parametrize("uplo", ["full", "lower"])
def test_updates_count_a_tile_and_its_image_once(files, uplo):
    run = partial(update_files, td.herk, "A.zarr", "C.npy", uplo=uplo, chunks=16)
    leave(run, 6)
    found = find_status("C.npy")
    assert (found.routine, found.tiles) == ("herk", 15)
    assert 6 <= found.done < 15
    assert run().resumed == found.done


def test_another_accuracy_is_named_even_where_scaling_differs(files):
    leave(partial(multiply, "C.npy", accuracy=1e-10))
    with raises(StoreError, "unfinished-differs") as refused:
        multiply("C.npy")
    assert "begun with accuracy 1e-10 and this" in refused.value.problem


def test_a_job_that_ends_before_its_first_tile_keeps_nothing(call, files):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "look_at_whole", None)
        code, _, err = call("gemm", "A.zarr", "B.npy", "-o", "C.npy", "--n-workers", 0)
    assert (code, "no tile was finished" in err) == (1, True)
    call.assert_refuses("status", "C.npy", why="no-job")


def test_a_status_tells_the_phase(call, files, monkeypatch):
    seen = []

    def look(module, name):
        call_of = getattr(module, name)

        def seeing(*given):
            seen.append(call("status", "C.zarr")[1])
            return call_of(*given)

        monkeypatch.setattr(module, name, seeing)

    look(driver, "look_at_whole")
    look(driver, "measure_residual")
    multiply("C.zarr", verify=True)
    looking, verifying = seen
    assert re.search("^phase +looking at the inputs$", looking, re.MULTILINE)
    assert re.search("^phase +verifying the result$", verifying, re.MULTILINE)
    assert "to be written" not in verifying


def test_info_describes_what_is_not_finished(call, files):
    leave(partial(multiply, "C.h5::g/C"))
    code, out, _ = call("info", "C.h5")
    assert code == 0
    assert "stopped" in out
    assert "twom-dist status C.h5" in out
    assert json.loads(call("info", "C.h5", "--json")[1])["tiles"] == 30
    call.assert_refuses("info", "none.h5", why="file-missing")
    call.assert_refuses("status", "none.h5", why="no-job")


def test_a_job_that_looks_at_its_inputs_has_no_tiles(call, files):
    with unfinished.find_unfinished("C.zarr").lock():
        found = find_status("C.zarr")
        assert (found.state, found.tiles) == ("running", 0)
        assert "looks at its inputs" in call("status", "C.zarr")[1]
    call.assert_refuses("status", "C.zarr", why="no-job")


@pytest.mark.parametrize(
    ("locked", "age", "host", "expected"),
    [
        # A lock that is held is held by a run, wherever.
        (True, 1000, "elsewhere", "running"),
        # This system knows the locks of its own processes.
        (False, 0, "here", "stopped"),
        # Another one may not: there the time of the lock file tells.
        (False, 5, "elsewhere", "running"),
        (False, 100, "elsewhere", "stopped"),
        (None, 5, "here", "running"),
        (None, 100, "here", "stopped"),
        # A clock that is wrong is no sign of life.
        (False, -1000, "elsewhere", "stopped"),
    ],
)
def test_what_shows_a_run(files, monkeypatch, locked, age, host, expected):
    leave(partial(multiply, "C.zarr"))
    signs = Signs(locked, time.time() - age)
    monkeypatch.setattr(Unfinished, "watch", lambda _: signs)
    if host == "elsewhere":
        monkeypatch.setattr(state, "gethostname", lambda: "another")
    assert find_status("C.zarr").state == expected


def test_a_run_shows_that_it_is_alive(files, monkeypatch):
    monkeypatch.setattr(_locks, "BEAT_SECONDS", 0.01)
    place = unfinished.find_unfinished("C.zarr")
    with place.lock():
        first = place.watch()
        assert first.locked
        end = time.monotonic() + 60
        while place.watch().beat == first.beat:
            assert time.monotonic() < end
    assert place.watch() == Signs(False, None)


def test_asking_does_not_keep_a_run_out(files):
    place = unfinished.find_unfinished("C.zarr")
    leave(partial(multiply, "C.zarr"))
    assert not place.watch().locked
    multiply("C.zarr")
    assert find_status("C.zarr").state == "finished"


def test_at_a_url_only_tiles_tell(call):
    save_at_url("memory://folder/A.zarr", make(64, 64, 4))
    names = [f"memory://folder/{x}.zarr" for x in "AAC"]
    try:
        call.assert_refuses("status", names[2], why="no-job")
        leave(partial(multiply_files, *names, chunks=16))
        code, out, _ = call("status", names[2])
        assert code == 1
        assert "only new tiles show a run" in out
        assert "of 16, the last" in out
        assert "multiply_files" in out
        assert "unknown" in call("info", names[2])[1]
        multiply_files(*names)
        assert call("status", names[2])[0] == 0
    finally:
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]


def test_other_files_and_damaged_notes(call, files):
    assert find_status("B.npy").state == "finished"
    leave(partial(multiply, "C.npy"))
    for path in Path().glob(".*/*.zarr/zarr.json"):
        path.write_text("{")
    call.assert_refuses("status", "C.npy", why="unfinished-damaged")
    # A run that is in there may be renaming what it has made.
    with unfinished.find_unfinished("C.npy").lock():
        assert find_status("C.npy").state == "running"
    np.save("C.npy", np.eye(2))
    assert find_status("C.npy").state == "finished"
    assert read("C.npy").shape == (2, 2)


def test_a_matrix_that_no_job_made_is_said_to_have_no_notes(call, files):
    code, out, _ = call("status", "A.zarr")
    assert (code, out.count("it has no record of a job")) == (0, 1)


def test_a_run_without_a_tile_says_that_it_has_no_estimate():
    run = state.Status("C.zarr", "running", 2, 30, phase="multiplying")
    rows = _list_rows(run, 0.0)
    assert (rows["phase"], rows["tiles"]) == ("multiplying", "2 of 30")
    assert rows["left"] == "unknown before the first tile of this run"
