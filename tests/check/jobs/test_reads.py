"""What jobs tell of the bytes that they have read, where C has few tiles."""

import threading
from copy import copy
from functools import partial

import numpy as np
import pytest
from dask.utils import format_bytes

import twom_dist as td
from tests.support.command import make, save
from tests.support.jobs import wait_until
from twom_dist.jobs import driver, reads
from twom_dist.jobs.reading import StoredTiles
from twom_dist.jobs.reads import Reads
from twom_dist.jobs.state import find_status
from twom_dist.plan import tiling

K, N = 300, 24


@pytest.fixture
def phases(monkeypatch):
    """List the phases of a job: the bytes that it read, and was to read."""
    made, begin = [], Reads.begin

    def note(self, phase, total):
        made.append(copy(self))
        begin(self, phase, total)
        made[0] = self

    monkeypatch.setattr(Reads, "begin", note)
    # The first one is that of the last phase; the next two have not begun any.
    return lambda: [(x._done, x._total) for x in (*made[2:], made[0])]


CALLS = {
    "gemm": partial(td.multiply_files, "A.npy", "B.zarr", "C.npy", op_a="C"),
    "one file": partial(td.multiply_files, "A.npy", "A.npy", "C.npy", op_a="T"),
    "herk": partial(td.update_files, td.herk, "A.npy", "C.npy", op="C"),
    "her2k": partial(td.update_files, td.her2k, "A.npy", "C.npy", b="B.zarr", op="C"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("chunks", "given"), [(32, {}), (16, {}), (16, {"num_moduli": 16})]
)
def test_what_streams_will_read_is_known(
    here, streaming, phases, monkeypatch, name, chunks, given
):
    monkeypatch.setattr("twom_dist.jobs.tiles.STRIP_BYTES", 0)
    save("A.npy", make(K, N, 1))
    save("B.zarr", make(K, N, 2))
    if "her" not in name and given:
        given = {**given, "equilibrate": False}
    CALLS[name](chunks=chunks, overwrite=True, **given)
    looked, multiplied = phases()
    assert multiplied[0] == multiplied[1] > 0
    # Pairs may stay open, which takes one more.
    assert looked[0] in ((0,) if given else (looked[1], looked[1] * 3 // 2))


def test_inputs_that_stay_are_read_once(here, phases, monkeypatch):
    monkeypatch.setattr(tiling, "HELD_BYTES", 0)
    save("A.npy", make(K, N, 1))
    CALLS["herk"](chunks=16)
    assert phases() == [(K * N * 16, K * N * 16), (0, 0)]


def test_a_text_tells_of_speed_and_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(reads, "monotonic", lambda: now[0])
    found = Reads()
    found.begin("multiplying", 2**30)
    assert str(found) == "multiplying"
    now[0] = 10.0
    found.add(2**28)
    told = "multiplying, 256.00 MiB of 1.00 GiB read, 25.60 MiB/s, 30s left"
    assert str(found) == told
    found.add(2**30)
    assert f" of {format_bytes(2**31)} read" in str(found)


def test_a_tall_job_tells_of_its_reads_before_its_only_tile(
    here, streaming, monkeypatch
):
    monkeypatch.setattr(reads, "TEXT_SECONDS", 0.01)
    monkeypatch.setattr(reads, "RECORD_SECONDS", 0.0)
    np.save("A.npy", make(K, 16, 1))
    seen, go_on = [], threading.Event()
    read = StoredTiles.read

    def waiting(self, i, j):
        block = read(self, i, j)
        if not go_on.is_set() and any(x.startswith("multiplying") for x in told):
            wait_until(lambda: " read, " in told[-1])
            wait_until(lambda: " read, " in find_status("C.npy").phase)
            seen.append(find_status("C.npy"))
            go_on.set()
        return block

    told = []
    monkeypatch.setattr(StoredTiles, "read", waiting)
    compute = driver.compute
    monkeypatch.setattr(driver, "compute", lambda *x: compute(*x, enter=told.append))
    td.update_files(td.herk, "A.npy", "C.npy", op="C", chunks=16)
    status = seen[0]
    assert (status.done, status.tiles) == (0, 1)
    assert status.phase.startswith("multiplying, ")
