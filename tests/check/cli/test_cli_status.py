"""``twom-dist status`` and ``info``: how far jobs are, and what is stored."""

import errno
import json
import os
import re
import shlex
import time
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.support.command import read
from tests.support.disk import failing
from tests.support.jobs import at, multiply, stop_after
from tests.support.stored import begun, make_matrix, save
from twom_dist.cli.progress import Bar
from twom_dist.jobs import Progress
from twom_dist.store import find_unfinished


@pytest.fixture
def status(call):
    return lambda output: json.loads(call("status", output, "--json")[1])


@pytest.mark.parametrize("output", ["C.zarr", "C.h5::g/C"])
def test_a_job_is_running_then_stopped_then_finished(files, call, status, output):
    call.assert_refuses("status", output, why="no-job")
    seen = []
    stop_after(2, partial(multiply, output))
    assert status(output)["state"] == "stopped"
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
    finished = status(output)
    assert (finished["done"], finished["tiles"]) == (30, 30)


def test_a_stopped_job_says_what_continues_it(call, files):
    given = ["--alpha", "2j", "--op-b", "T", "--accuracy", "1e-13", "--no-equilibrate"]
    given += ["--n-workers", "0", "--memory-limit", str(2**31)]
    os.mkdir("out")
    typed = ["gemm", "A.zarr", "A.zarr", "-o", "out/C.npy", *given, "--chunks", "16"]
    # The third tile finds the disk full.
    syncs = count()
    with failing("fsync", when=lambda _: next(syncs) >= 8, number=errno.ENOSPC):
        code, _, err = call(*typed, "--overwrite")
    assert code == 1, err
    os.rename("out", "moved")
    assert "as typed before the output was moved" in call("status", "moved/C.npy")[1]
    os.rename("moved", "out")
    code, out, _ = call("status", "out/C.npy")
    assert code == 1
    _, stopped, *rows, last = out.splitlines()
    assert stopped.split() == ["state", "stopped"]
    assert re.search(r"^left +would take .*\d+s$", "\n".join(rows), re.M)
    command = shlex.split(last.removeprefix("continue"))
    assert command == ["cd", os.getcwd(), "&&", "twom-dist", *typed]
    code, _, err = call(*typed)
    assert code == 0
    kept = r"\d+ of \d+ tiles of 16 x 16 kept"
    assert re.match(rf"twom-dist: continues on .+, {kept}\n", err)
    assert call("status", "out/C.npy")[0] == 0


def test_updates_count_a_tile_and_its_image_once(files, status):
    run = partial(td.rank_k_files, td.herk, "A.zarr", "C.npy", chunks=16)
    stop_after(6, run)
    found = status("C.npy")
    assert (found["routine"], found["tiles"]) == ("herk", 15)
    assert 6 <= found["done"] < 15
    assert run().resumed == found["done"]
    # A .npy file has no record of its tiles.
    assert status("C.npy")["tiles"] is None
    td.rank_k_files(td.herk, "A.zarr", "C.zarr", chunks=16)
    assert status("C.zarr")["done"] == status("C.zarr")["tiles"] == 15


def test_a_run_on_another_host_shows_by_the_time_of_its_lock(files, status):
    stop_after(2, partial(multiply, "C.zarr"))
    place = find_unfinished("C.zarr")
    output, manifest = place.find()
    for host in (None, "another"):
        if host:
            output.record(run=manifest["run"] | {"host": host})
        # A clock that is wrong is no sign of life.
        for age, alive in ((5, host), (100, False), (-1000, False)):
            os.utime(place.lock_path, (time.time() - age,) * 2)
            expected = "running" if alive else "stopped"
            assert status("C.zarr")["state"] == expected, (host, age)


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


CLEAR = "\x1b[2J\nstate  finished \u202e"


@pytest.mark.parametrize("name", [f"{CLEAR}.npy", f"{CLEAR}.zarr", "\udcff.npy"])
def test_names_are_spelt_out_for_a_terminal(call, here, name):
    save(name, make_matrix())
    td.rank_k_files(td.herk, name, "C.zarr", num_moduli=16)
    with begun(name, np.eye(4), overwrite=True):
        pass
    shown = [call("info", "C.zarr"), call("info", name), call("status", name)]
    shown += [call("status", "x" + name)]
    for code, out, err in shown:
        lines = (out + err).split("\n")
        assert all(map(str.isprintable, lines)), (code, lines)
        assert [x for x in lines if x.startswith("state  finished")] == []
    assert json.loads(call("info", name, "--json")[1])["path"] == f"{here}/{name}"


def test_a_line_tells_of_tiles_and_of_the_time_that_is_left(capsys):
    with Bar(9, 3) as bar:
        bar.enter("multiplying")
        bar.report(Progress(4, 9, 1, 1.0))
        assert capsys.readouterr().err == ""
        # Three of nine were there: two of this run took 299 s, and four are left.
        bar.last_print_t = bar.start_t = bar.start_t - 299
        bar.report(Progress(5, 9, 299 * 10**9, 299.0))
    said = "multiplying:  56% 5/9 [04:59<09:58, 149.50s/tile, 1.0 GFLOP/s]"
    assert capsys.readouterr().err == f"twom-dist: {said}\n"
