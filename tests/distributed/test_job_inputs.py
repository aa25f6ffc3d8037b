"""Inputs that change during a run, or are other files on a worker: refused."""

import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.command import CommandLine, contents, read, same_bits
from tests.expect import raises
from tests.jobs import TILES, at, interrupt, multiply, stop_after
from twom_dist.errors import StoreError
from twom_dist.jobs import driver, multiply_files, run, update_files
from twom_dist.store import StoredMatrix

# Each process finds the folder that it works in here.
OWN = "/proc/self/cwd"


def change(path, gone=False):
    """Store other values of the same shape under the same name, or none."""
    if gone:
        Path(path).unlink()
    elif path.endswith(".zarr"):
        # One chunk: the metadata file stays as it is.
        chunk = Path(path, "c/4/3")
        chunk.write_bytes(bytes(chunk.stat().st_size))
    else:
        np.save(path, 2 * read(path))


@pytest.mark.parametrize(
    ("name", "alone", "gone"),
    [("A.zarr", True, False), ("B.npy", False, False), ("B.npy", True, True)],
)
def test_an_input_that_changes_during_a_run_leaves_no_output(
    request, files, name, alone, gone
):
    change_it = at(30 if gone else 3, partial(change, name, gone))
    client = None if alone else request.getfixturevalue("client")
    options = {"client": client, "tile": 16, "overwrite": True}
    np.save("C.npy", np.eye(3))
    with raises(StoreError, "input-changed"):
        multiply_files("A.zarr", "B.npy", "C.npy", progress=change_it, **options)
    assert same_bits(read("C.npy"), np.eye(3))
    # Nor anything that a later run could take for a part of the result.
    assert list(Path().glob(".*")) == []


# --- workers that see other files ----------------------------------------------------


@contextmanager
def elsewhere(client, folder):
    """Have one of the workers work in a folder of its own."""
    (worker, *_) = client.nthreads()
    ((_, home),) = client.run(os.getcwd, workers=[worker]).items()
    client.run(os.chdir, os.path.abspath(folder), workers=[worker])
    others = [x for x in client.nthreads() if x != worker]
    homes = client.run(os.getcwd, workers=others)
    client.run(os.chdir, os.getcwd(), workers=others)
    try:
        yield worker
    finally:
        for address, path in {**homes, worker: home}.items():
            client.run(os.chdir, path, workers=[address])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("same", None),
        ("other", "input-differs-on-worker"),
        ("none", "file-not-on-worker"),
    ],
)
def test_a_worker_that_sees_another_file_is_refused(client, files, capsys, kind, code):
    Path("other").mkdir()
    if kind != "none":
        # Of the same shape: nothing else would tell them apart.
        np.save("other/B.npy", files[1] if kind == "same" else -files[1])
        status = Path("B.npy").stat()
        times = (status.st_atime_ns, status.st_mtime_ns + (kind == "other"))
        os.utime("other/B.npy", ns=times)
    before = contents(Path())
    paths = (os.path.abspath("A.zarr"), f"{OWN}/B.npy", os.path.abspath("C.zarr"))
    with elsewhere(client, "other") as worker:
        if code is None:
            multiply_files(*paths, client=client, tile=16)
            assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
            return
        with raises(StoreError, code) as caught:
            multiply_files(*paths, client=client)
        assert worker in str(caught.value)
        with raises(StoreError, code):
            update_files(
                "her2k", f"{OWN}/B.npy", paths[2], f"{OWN}/B.npy", client=client
            )
        flags = ("-o", paths[2], "--scheduler", client.scheduler.address)
        CommandLine(capsys).assert_refuses("gemm", *paths[:2], *flags, why=code)
    assert contents(Path()) == before


def test_an_interrupt_while_the_inputs_are_looked_at_costs_nothing(files, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(driver.InputGuard, "check", lambda *_: interrupt())
        with pytest.raises(KeyboardInterrupt):
            multiply()
    assert multiply().resumed == TILES
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_no_file_of_an_input_is_looked_at_before_the_first_tile(files, monkeypatch):
    """There may be a million of them."""
    first, found = threading.Event(), []
    stamp = StoredMatrix.stamp

    def wait(stored):
        found.append(first.wait(60))
        return stamp(stored)

    monkeypatch.setattr(StoredMatrix, "stamp", wait)
    monkeypatch.setattr(run, "MANY_CHUNKS", 0)
    multiply(progress=lambda _: first.set())
    assert found == [True] * 4


def test_what_was_found_of_the_inputs_is_kept_for_the_next_run(files):
    stop_after(30, multiply)
    change("A.zarr")
    with raises(StoreError, "unfinished-input-changed"):
        multiply()
