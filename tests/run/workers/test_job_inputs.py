"""Inputs that change during a run, or are other files on a worker: refused."""

import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import contents, read
from tests.support.expect import raises
from tests.support.jobs import TILES, at, multiply
from tests.support.stored import disguise, left_behind
from twom_dist.api.files import multiply_files
from twom_dist.errors import StoreError
from twom_dist.store import StoredMatrix, _tree

# Each process finds the folder that it works in here.
OWN = "/proc/self/cwd"


@pytest.mark.parametrize(
    ("alone", "tiles", "change"),
    [
        # One chunk: the metadata file stays as it is.
        (True, 3, lambda: Path("A.zarr/c/4/3").write_bytes(bytes(16**3))),
        (False, 3, lambda: np.save("B.npy", 2 * read("B.npy"))),
        (True, TILES, lambda: Path("B.npy").unlink()),
        (True, 9, lambda: disguise("A.zarr/c/0/0")),
        (True, 9, lambda: disguise("B.npy")),
        # Its content may have changed as well.
        (True, 9, lambda: Path("B.npy").chmod(0o600)),
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
            multiply_files(*paths, client=client, chunks=16)
            assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
            return
        with raises(StoreError, code) as caught:
            multiply_files(*paths, client=client)
        assert worker in str(caught.value)
    assert contents(Path()) == before


def test_every_file_of_the_inputs_is_looked_at_before_any_is_read(files, monkeypatch):
    """What changes between would be taken for what was read."""
    seen, read = [], StoredMatrix.__getitem__
    look_at_files = _tree.look_at_files

    def look(path):
        yield from look_at_files(path)
        if path.endswith("A.zarr"):
            seen.append("looked")

    def note(stored, index):
        seen.append("read")
        return read(stored, index)

    monkeypatch.setattr(_tree, "look_at_files", look)
    monkeypatch.setattr(StoredMatrix, "__getitem__", note)
    multiply()
    first, last = seen.index("read"), len(seen) - seen[::-1].index("read")
    assert (seen[:first], seen[last:]) == (["looked"], ["looked"])
