"""Looks at the inputs of jobs that were stopped: the next run takes their findings."""

from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import make, read, save
from tests.support.stored import left_behind
from twom_dist.errors import StoreError
from twom_dist.jobs import driver

K, N = 200, 24


@pytest.fixture
def looks(here, monkeypatch):
    """Store matrices, and count the looks at them."""
    a, b = make(K, N, 1), make(K, N, 2)
    # Columns of op(A) are shifted against one another.
    b *= 2.0 ** (np.arange(K)[:, None] % 40)
    save("A.npy", a)
    save("B.zarr", b)
    found, look = [], driver.look_at_whole

    def note(*given):
        found.append(look(*given))
        return found[-1]

    monkeypatch.setattr(driver, "look_at_whole", note)
    return found


NAMES = "A.npy", "B.zarr", "C.npy"
SHIFTS = {"num_moduli": 14, "equilibrate": True}
W = np.arange(1.0, K + 1)
JOBS = {
    "gemm": partial(td.multiply_files, *NAMES, op_a="C"),
    "shifts alone": partial(td.multiply_files, *NAMES, op_a="C", **SHIFTS),
    "weighted": partial(td.multiply_files, "A.npy", *NAMES[::2], op_a="T", diag=W),
    "herk": partial(td.update_files, td.herk, *NAMES[::2], op="C"),
}


def stop_at_first_product(job, **options):
    """Stop a job once it has looked; return the exception."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "make_tasks", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt) as caught:
            job(**options)
    return caught.value


@pytest.mark.parametrize("name", JOBS)
def test_the_next_run_does_not_look_again(looks, name):
    job = JOBS[name]
    error = stop_at_first_product(job, chunks=32)
    assert "the look at the inputs is kept in" in error.__notes__[0]
    # Other tiles: what was found is that of the matrices.
    told = job(chunks=16)
    assert len(looks) == 1
    kept = read("C.npy")
    again = job(chunks=16, overwrite=True)
    assert len(looks) == 2
    assert same_bits(kept, read("C.npy"))
    assert told.explanation == again.explanation
    assert left_behind() == []


def damage():
    (kept,) = Path(".C.npy.unfinished").glob("look")
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)


def change():
    np.save("A.npy", 3 * make(K, N, 5))


@pytest.mark.parametrize(
    ("act", "options"),
    [
        (None, {"accuracy": 1e-12}),
        (None, {"overwrite": True}),
        (change, {}),
        (damage, {}),
    ],
)
def test_what_no_longer_holds_is_found_again(looks, act, options):
    job = JOBS["gemm"]
    stop_at_first_product(job, chunks=32)
    if act is not None:
        act()
    job(chunks=32, **options)
    assert len(looks) == 2
    own = {x: y for x, y in options.items() if x != "overwrite"}
    expected = td.gemm(np.load("A.npy"), read("B.zarr"), op_a="C", **own)
    assert same_bits(read("C.npy"), expected)


def test_an_input_that_changes_leaves_no_look(looks):
    job = JOBS["herk"]
    plain = driver.check_unchanged

    def change(*given):
        np.save("A.npy", make(K, N, 5))
        return plain(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "check_unchanged", change)
        with pytest.raises(StoreError):
            job()
    assert left_behind() == []


def test_a_job_that_was_to_replace_its_output_still_does(looks):
    job = JOBS["herk"]
    job()
    stop_at_first_product(job, alpha=2, overwrite=True)
    job(alpha=2)
    assert len(looks) == 2
    assert same_bits(read("C.npy"), td.herk(np.load("A.npy"), op="C", alpha=2))
