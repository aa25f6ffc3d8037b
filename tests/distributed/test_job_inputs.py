"""Inputs that change during a run, or are other files on a worker: refused."""

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.command import contents, read, same_bits
from tests.expect import raises
from tests.jobs import TILES, at, multiply
from tests.stored import left_behind
from twom_dist.errors import StoreError
from twom_dist.jobs import multiply_files, run
from twom_dist.store import StoredMatrix

# Each process finds the folder that it works in here.
OWN = "/proc/self/cwd"


@pytest.mark.parametrize(
    ("alone", "tiles", "change"),
    [
        # One chunk: the metadata file stays as it is.
        (True, 3, lambda: Path("A.zarr/c/4/3").write_bytes(bytes(16**3))),
        (False, 3, lambda: np.save("B.npy", 2 * read("B.npy"))),
        (True, TILES, lambda: Path("B.npy").unlink()),
    ],
)
def test_an_input_that_changes_during_a_run_leaves_no_output(
    request, files, alone, tiles, change
):
    client = None if alone else request.getfixturevalue("client")
    np.save("C.npy", np.eye(3))
    with raises(StoreError, "input-changed"):
        multiply("C.npy", client=client, overwrite=True, progress=at(tiles, change))
    assert same_bits(read("C.npy"), np.eye(3))
    # Nor anything that a later run could take for a part of the result.
    assert left_behind() == []


# --- workers that see other files ----------------------------------------------------


@contextmanager
def elsewhere(client, folder):
    """Have one of the workers work in a folder of its own, and the others in this."""
    homes = client.run(os.getcwd)
    places = dict.fromkeys(homes, os.getcwd())
    worker = min(homes)
    places[worker] = os.path.abspath(folder)
    try:
        for address, path in places.items():
            client.run(os.chdir, path, workers=[address])
        yield worker
    finally:
        for address, path in homes.items():
            client.run(os.chdir, path, workers=[address])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("same", None),
        ("other", "input-differs-on-worker"),
        ("none", "file-not-on-worker"),
    ],
)
def test_a_worker_that_sees_another_file_is_refused(client, files, kind, code):
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
    assert contents(Path()) == before


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
