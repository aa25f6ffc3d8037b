"""``twom-dist status`` and ``info``: how far jobs are, from what lies at outputs."""

import json
import math
import os
import re
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import h5py
import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

import twom_dist as td
from tests.support.buckets import save as save_at_url
from tests.support.cases import cases
from tests.support.command import make, read
from tests.support.jobs import at, multiply, stop_after, wait_until
from tests.support.stored import begun, left_behind, make_matrix, save
from twom_dist.cli.following import follow
from twom_dist.cli.status import _list_rows
from twom_dist.errors import StoreError
from twom_dist.jobs import Progress, state
from twom_dist.store import Signs, Unfinished, find_unfinished


@pytest.fixture
def status(call):
    """What the command tells of an output, as JSON."""
    return lambda output: json.loads(call("status", output, "--json")[1])


@pytest.mark.parametrize("output", ["C.zarr", "C.h5::g/C"])
def test_a_job_is_running_then_stopped_then_finished(files, call, status, output):
    call.assert_refuses("status", output, why="no-job")
    seen = []
    stop_after(2, partial(multiply, output))
    assert status(output)["state"] == "stopped"
    code, out, _ = call("info", output)
    assert (code, "stopped" in out, "twom-dist status C" in out) == (0, True, True)
    multiply(output, progress=at(20, lambda: seen.append(status(output))))
    (running,) = seen
    expected = {"state": "running", "host": os.uname().nodename, "tiles": 30}
    expected |= {"phase": "multiplying", "shape": [70, 90], "tile_shape": [16, 16]}
    assert {x: running[x] for x in expected} == expected
    assert 20 <= running["done"] < 30
    assert running["since"] - 1 < running["last"] < time.time() + 1
    left = running["seconds_left"] * running["tiles_per_second"]
    assert left == pytest.approx(30 - running["done"])
    assert call("status", output)[0] == 0


def fail_after(count):
    """Sync files so often, and then fail as on a full disk."""
    sync, left = os.fsync, [count]

    def fsync(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, os.strerror(28))
        sync(descriptor)

    return fsync


def test_a_stopped_job_says_what_continues_it(call, files):
    given = ["--alpha", "2j", "--op-b", "T", "--accuracy", "1e-13", "--no-equilibrate"]
    given += ["--n-workers", "0", "--memory-limit", str(2**31)]
    os.mkdir("out")
    typed = ["gemm", "A.zarr", "A.zarr", "-o", "out/C.npy", *given]
    given += ["--chunks", "16"]
    typed += ["--overwrite", "--chunks", "16"]
    with pytest.MonkeyPatch.context() as patch:
        # The third tile finds the disk full.
        patch.setattr(os, "fsync", fail_after(8))
        code, _, err = call(*typed)
    assert code == 1, err
    os.rename("out", "moved")
    assert "as typed before the output was moved" in call("status", "moved/C.npy")[1]
    os.rename("moved", "out")
    code, out, _ = call("status", "out/C.npy")
    assert code == 1
    _, stopped, *rows, last = out.splitlines()
    assert stopped.split() == ["state", "stopped"]
    assert re.search(r"^left +would take \d+s$", "\n".join(rows), re.M)
    command = shlex.split(last.removeprefix("continue"))
    folder = os.getcwd()
    assert command[:4] == ["twom-dist", "gemm", *[f"{folder}/A.zarr"] * 2]
    assert command[4:] == ["-o", f"{folder}/out/C.npy", *given]
    code, _, err = call(*command[1:])
    assert code == 0
    assert re.match(r"twom-dist: continues on .+, with \d+ of \d+ tiles kept\n", err)
    assert call("status", "out/C.npy")[0] == 0


@pytest.mark.parametrize("uplo", ["full", "lower"])
def test_updates_count_a_tile_and_its_image_once(files, status, uplo):
    run = partial(td.update_files, td.herk, "A.zarr", "C.npy", uplo=uplo, chunks=16)
    stop_after(6, run)
    found = status("C.npy")
    assert (found["routine"], found["tiles"]) == ("herk", 15)
    assert 6 <= found["done"] < 15
    assert run().resumed == found["done"]


def test_a_job_that_looks_at_its_inputs_has_no_tiles(call, files, status):
    with find_unfinished("C.zarr").lock():
        found = status("C.zarr")
        assert (found["state"], found["tiles"]) == ("running", 0)
        assert "looks at its inputs" in call("status", "C.zarr")[1]
    call.assert_refuses("status", "C.zarr", why="no-job")


def test_what_shows_a_run(files, status, monkeypatch):
    stop_after(2, partial(multiply, "C.zarr"))
    for locked, age, elsewhere, expected in (
        # A lock that is held is held by a run, wherever.
        (True, 1000, True, "running"),
        # This system knows the locks of its own processes.
        (False, 0, False, "stopped"),
        # Another one may not: there the time of the lock file tells.
        (False, 5, True, "running"),
        (False, 100, True, "stopped"),
        (None, 5, False, "running"),
        (None, 100, False, "stopped"),
        # A clock that is wrong is no sign of life.
        (False, -1000, True, "stopped"),
    ):
        signs = Signs(locked, time.time() - age)
        host = "another" if elsewhere else os.uname().nodename
        monkeypatch.setattr(Unfinished, "watch", lambda _, signs=signs: signs)
        monkeypatch.setattr(state, "gethostname", lambda host=host: host)
        assert status("C.zarr")["state"] == expected, (locked, age, elsewhere)


def test_a_run_shows_that_it_is_alive(files, monkeypatch):
    monkeypatch.setattr("twom_dist.store._locks.BEAT_SECONDS", 0.01)
    place = find_unfinished("C.zarr")
    with place.lock():
        first = place.watch()
        assert first.locked
        wait_until(lambda: place.watch().beat != first.beat)
    assert place.watch() == Signs(False, None)


def test_at_a_url_only_tiles_tell(call):
    save_at_url("memory://folder/A.zarr", make(64, 64, 4))
    names = [f"memory://folder/{x}.zarr" for x in "AAC"]
    try:
        call.assert_refuses("status", names[2], why="no-job")
        stop_after(2, partial(td.multiply_files, *names, chunks=16))
        code, out, _ = call("status", names[2])
        assert code == 1
        for part in ("only new tiles show a run", "of 16, the last", "multiply_files"):
            assert part in out
        assert "unknown" in call("info", names[2])[1]
        td.multiply_files(*names)
        assert call("status", names[2])[0] == 0
    finally:
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]


def test_other_files_and_damaged_notes(call, files, status):
    assert status("B.npy")["state"] == "finished"
    stop_after(2, partial(multiply, "C.npy"))
    for path in Path().glob(".*/*.zarr/zarr.json"):
        path.write_text("{")
    call.assert_refuses("status", "C.npy", why="unfinished-damaged")
    # A run that is in there may be renaming what it has made.
    with find_unfinished("C.npy").lock():
        assert status("C.npy")["state"] == "running"
    np.save("C.npy", np.eye(2))
    assert status("C.npy")["state"] == "finished"
    assert read("C.npy").shape == (2, 2)


@cases(
    ("done", "phase", "left"),
    [
        (2, "multiplying", "unknown before the first tile of this run"),
        (4, "multiplying", "the file itself is to be written"),
        (4, "verifying the result", "unknown before the first tile of this run"),
    ],
)
def test_what_is_left_depends_on_the_phase(done, phase, left):
    rows = _list_rows(state.Status("C", "running", done, 4, phase=phase), time.time())
    assert (rows["phase"], rows["left"]) == (phase, left)


def test_a_job_shows_before_its_workers_have_started(call, files, monkeypatch):
    """And what its output would replace is refused before."""
    seen = []

    def start(*_, **options):
        seen.append(call("status", "C.npy"))
        raise StoreError("there are no workers", "", "no-workers")

    monkeypatch.setattr("twom_dist.cli.workers.find_workers", start)
    product = "gemm", "A.zarr", "B.npy", "-o"
    call.assert_refuses(*product, "C.npy", why="no-workers")
    ((code, out, _),) = seen
    assert (code, out.split("\n")[1].split()) == (1, ["state", "running"])
    save("old.npy", files[0])
    call.assert_refuses(*product, "old.npy", why="output-exists")
    call.assert_refuses(*product, "x/C.npy", why="no-folder")
    assert len(seen) == 1
    assert left_behind() == []


# --- what others wrote ----------------------------------------------------------------

CLEAR = "\x1b[2J\nstate  finished \u202e"


@pytest.mark.parametrize("name", [f"{CLEAR}.npy", f"{CLEAR}.zarr", "\udcff.npy"])
def test_names_are_spelt_out_for_a_terminal(call, here, name):
    save(name, make_matrix())
    td.update_files(td.herk, name, "C.zarr", num_moduli=16)
    with begun(name, np.eye(4), overwrite=True):
        pass
    shown = [call("info", "C.zarr"), call("info", name), call("status", name)]
    shown += [call("clean", here), call("status", "x" + name)]
    for code, out, err in shown:
        lines = (out + err).split("\n")
        assert all(map(str.isprintable, lines)), (code, lines)
        assert [x for x in lines if x.startswith("state  finished")] == []
    assert json.loads(call("info", name, "--json")[1])["path"] == f"{here}/{name}"


NOTES = [
    {"id": 3},
    {"id": 3, "made": [1], "accuracy": {}, "inputs": {}},
    {"id": 3, "made": {}, "accuracy": {}, "inputs": {}},
    {"id": 3, "made": {"twom_dist": 1}, "accuracy": {"method": 1}, "inputs": {"A": 2}},
    {"id": 3, "made": {"uplo": []}, "accuracy": {"num_moduli": 1}, "inputs": {"A": []}},
]


def test_notes_of_others_are_not_taken_for_ours(call):
    for name in ("A.zarr", "A.h5"):
        save(name, make_matrix())
    for notes in NOTES:
        zarr.open_array("A.zarr", mode="r+").attrs["twom_dist"] = notes
        with h5py.File("A.h5", "r+") as file:
            file["matrix"].attrs["twom_dist"] = json.dumps(notes)
        for name in ("A.zarr", "A.h5"):
            for command in ("info", "status"):
                code, out, err = call(command, name)
                assert (code, err) == (0, ""), (out, err)


# --- lines of a job -------------------------------------------------------------------


def worker(status, last_seen=math.inf):
    found = Mock(last_seen=last_seen, executing=(), processing=())
    found.status.name = status
    return found


def client_of(*workers):
    scheduler = Mock(workers=dict(enumerate(workers)))
    return Mock(run_on_scheduler=lambda ask: ask(scheduler))


HARMED = worker("paused"), worker("paused"), worker("running", 0)


@pytest.mark.parametrize(
    ("client", "before", "workers"),
    [
        (None, 4, ""),
        (client_of(*HARMED), 4, ", 3 of 4 workers, 2 paused, 1 silent"),
        (client_of(worker("running")), 1, ", 1 worker"),
        (Mock(run_on_scheduler=Mock(side_effect=OSError)), 4, ", no answer from the s"),
    ],
)
def test_a_line_tells_of_tiles_and_workers(capsys, client, before, workers):
    lines = []

    def said():
        lines.extend(capsys.readouterr().err.splitlines())
        return lines

    with follow(9, 3, client, before, seconds=0.02) as report:
        wait_until(said)
        assert lines[0].startswith(f"twom-dist: 3 of 9 tiles, preparing{workers}")
        report("looking at the inputs")
        wait_until(lambda: "tiles, looking at the inputs" in said()[-1])
        # Three of nine were there: two of this run took 299 s, and two are left.
        report(Progress(5, 9, 299 * 10**9, 299.0))
        wait_until(lambda: "left" in said()[-1])
        told = f"twom-dist: 5 of 9 tiles, 1.0 GFLOP/s, 9m 58s left{workers}"
        assert lines[-1].startswith(told)
        report(Progress(9, 9, 10**9, 1.0))
        report("writing the output")
        wait_until(lambda: "writing" in said()[-1])
    # A short job says nothing, nor does one that has ended.
    said()
    with follow(9) as report:
        report(Progress(1, 9, 1, 1.0))
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_one_line_changes_and_goes(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((20, 5)))
    said = []
    with follow(9, seconds=0.02):
        wait_until(lambda: said.append(capsys.readouterr().err) or said[-1])
    said.append(capsys.readouterr().err)
    # Room is left for the cursor, or the terminal would go on in the next line.
    assert said[-2].startswith("\r0 of 9 tiles, prepa\x1b[K")
    assert said[-1].endswith("\r\x1b[K")
