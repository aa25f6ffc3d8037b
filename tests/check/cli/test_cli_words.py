"""Words of the commands: of names that a terminal obeys, of notes that others wrote."""

import json
import os
import shutil
import time
from functools import partial
from importlib import import_module
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.support.jobs import multiply, stop_after
from tests.support.stored import begun, left_behind, make_matrix, save
from twom_dist.api import plans
from twom_dist.cli.status import _list_rows
from twom_dist.errors import StoreError
from twom_dist.jobs.state import Status, find_status
from twom_dist.store import Output

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


@pytest.mark.parametrize("notes", NOTES)
def test_notes_of_others_are_not_taken_for_ours(call, notes):
    for name in ("A.zarr", "A.h5"):
        save(name, make_matrix())
    zarr.open_array("A.zarr", mode="r+").attrs["twom_dist"] = notes
    with h5py.File("A.h5", "r+") as file:
        file["matrix"].attrs["twom_dist"] = json.dumps(notes)
    for name in ("A.zarr", "A.h5"):
        for command in ("info", "status"):
            code, out, err = call(command, name)
            assert (code, err) == (0, ""), (out, err)


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


def test_a_status_tells_that_its_folder_was_moved(call, files):
    os.mkdir("old")
    product = "gemm", "A.zarr", "B.npy", "-o", "old/C.npy", "--chunks", "16"
    stop = partial(call, *product, "--n-workers", 0)
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patch:
        write, left = Output.write, [3]

        def fail(*given):
            left[0] -= 1
            if not left[0]:
                raise StoreError("the disk is full", "", "disk-full")
            write(*given)

        patch.setattr(Output, "write", fail)
        assert stop()[0] == 1
    assert "moved" not in call("status", "old/C.npy")[1]
    os.rename("old", "new")
    assert "as typed before the output was moved" in call("status", "new/C.npy")[1]


def test_a_status_survives_the_end_of_a_run(files, monkeypatch):
    stop_after(2, partial(multiply, "C.npy"))
    find = Output.find_times

    def end(output):
        found = find(output)
        shutil.rmtree(".C.npy.unfinished")
        save("C.npy", make_matrix())
        return found

    monkeypatch.setattr(Output, "find_times", end)
    assert find_status("C.npy").state == "finished"


@pytest.mark.parametrize("inside", ["notes.txt", "{id}.zarr/notes.txt"])
def test_what_others_put_beside_the_tiles_outlives_the_job(here, inside):
    with begun("C.npy", np.eye(4)) as (place, output):
        notes = Path(place.folder, inside.format(id=output.id))
        notes.write_text("mine")
        place.finish(output, overwrite=False)
    assert notes.read_text() == "mine"
    assert (np.load("C.npy") == np.eye(4)).all()


@pytest.mark.parametrize("phase", ["multiplying", "verifying the result"])
def test_what_is_left_after_the_last_tile_depends_on_the_phase(phase):
    done = Status("C.npy", "running", done=4, tiles=4, phase=phase)
    written = "the file itself is to be written"
    left = _list_rows(done, time.time()).get("left")
    assert (left == written) == (phase == "multiplying")


def test_planned_workers_share_the_cores(call, monkeypatch):
    given = []
    # The package gives the command the name of its module.
    monkeypatch.setattr(import_module("twom_dist.cli.plan"), "CPU_COUNT", 8)
    monkeypatch.setattr(plans, "plan", lambda *_, **options: given.append(options))
    for workers in (1, 3, 16):
        call("plan", "herk", "--shape-a", "512,512", "--n-workers", workers)
    assert [options["threads_per_worker"] for options in given] == [8, 2, 1]
