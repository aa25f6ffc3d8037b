"""What cannot be continued as it is named, or as it was left, is refused."""

import os
from pathlib import Path

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.command import CommandLine, assert_refused, contents, read, same_bits, save
from tests.expect import raises
from tests.jobs import change_form, multiply, small_cluster, stop_after
from twom_dist.errors import MemoryLimitError, PlanError, StoreError
from twom_dist.jobs import begin, multiply_files, open_job

JOURNAL = Path(".C.zarr.resume")

pytestmark = pytest.mark.usefixtures("every_tile_recorded")

CHANGES = [
    ({"alpha": 2}, "alpha 2.0"),
    ({"op_a": "C", "a": "AH.npy"}, "op_a C"),
    ({"num_moduli": 12}, "12 moduli"),
    ({"accuracy": 1e-6}, "accuracy 1e-06 (6 moduli)"),
    ({"method": "3m"}, "method 3m"),
    ({"method": "native"}, "method native"),
    ({"beta": 1, "c": "C0.h5"}, "beta 1.0"),
    ({"b": "B2.npy"}, "B2.npy' as B"),
]


@pytest.mark.parametrize(("changes", "told"), CHANGES)
def test_another_job_is_refused(files, changes, told):
    save("AH.npy", files[0].conj().T)
    save("B2.npy", files[1])
    stop_after(3, multiply)
    before = contents(Path())
    options = {"a": "A.zarr", "b": "B.npy", "resume": True, **changes}
    with raises(StoreError, "unfinished-differs") as caught:
        multiply_files(output="C.zarr", **options)
    assert told in caught.value.problem
    assert contents(Path()) == before
    multiply(resume=True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_another_tile_is_refused(files):
    stop_after(3, multiply)
    with raises(PlanError, "tile-differs"):
        multiply(resume=True, tile=20)
    assert multiply(resume=True, tile=16).resumed == 3


@pytest.mark.parametrize("name", ["A.zarr", "B.npy"])
def test_a_changed_input_is_refused(files, name):
    stop_after(3, multiply)
    if name == "B.npy":
        np.save(name, read(name))
        os.utime(name, ns=(1, 1))
    else:
        # One chunk: the metadata file stays as it is.
        chunk = Path("A.zarr/c/0/0")
        chunk.write_bytes(chunk.read_bytes())
    with raises(StoreError, "unfinished-input-changed") as caught:
        multiply(resume=True)
    assert name in caught.value.problem


def test_another_version_is_refused(files, monkeypatch):
    stop_after(3, multiply)
    monkeypatch.setattr(td, "__version__", "9.9")
    with raises(StoreError, "unfinished-differs"):
        multiply(resume=True)


def test_a_journal_of_another_form_is_refused(files):
    stop_after(3, multiply)
    change_form(JOURNAL)
    for resume in (False, True):
        with raises(StoreError, "unfinished-version"):
            multiply(resume=resume)


def test_a_native_product_stays_with_its_engine_and_panels(files):
    stop_after(3, lambda **k: multiply(method="native", **k))
    with raises(StoreError, "unfinished-differs"):
        multiply(method="native", engine="reference", resume=True)
    with dask.config.set({"twom-dist.panel-bytes": 1}):
        multiply(method="native", resume=True)
    expected = td.gemm(*files[:2], method="native")
    np.testing.assert_allclose(read("C.zarr"), expected, rtol=1e-13)


def test_workers_too_small_for_the_layout_are_refused(files):
    stop_after(3, multiply)
    job = open_job("gemm", "A.zarr", "B.npy", "C.zarr")
    with raises(MemoryLimitError, "memory"):
        begin(job, small_cluster(2**10), resume=True)
    assert multiply(resume=True).resumed == 3


def test_a_leftover_is_not_touched_unasked(files, capsys):
    stop_after(4, multiply)
    before = contents(Path())
    with raises(StoreError, "unfinished-output") as caught:
        multiply()
    assert "4 of 30 tiles" in caught.value.problem
    answer = CommandLine(capsys)("gemm", "A.zarr", "B.npy", "-o", "C.zarr")
    assert "resume" in assert_refused(answer)
    assert contents(Path()) == before


def test_an_unfinished_output_that_was_cut_is_refused(files):
    stop_after(3, lambda **k: multiply("C.npy", **k))
    (temporary,) = Path().glob(".C.npy.*.partial")
    os.truncate(temporary, 1000)
    with raises(StoreError, "file-truncated"):
        multiply("C.npy", resume=True)


@pytest.mark.parametrize("size", [3, 900])
def test_a_journal_cut_in_its_first_line_names_what_it_told_of(files, size):
    """Started anew without a word, the job would leave that where it is."""
    stop_after(3, multiply)
    (left,) = Path().glob("*.partial")
    os.truncate(JOURNAL, min(size, JOURNAL.read_bytes().index(b"\n")))
    before = contents(Path())
    for options in ({}, {"resume": True}, {"overwrite": True}):
        with raises(StoreError, "journal-damaged") as caught:
            multiply(**options)
        assert left.name in caught.value.remedy
    assert contents(Path()) == before


@pytest.mark.parametrize(
    ("begun", "now"),
    [
        ("C.h5::C", "C.h5::D"),
        ("C.h5::g/C", "C.h5"),
        ("C.h5", "C.h5::C"),
        ("C.zarr", "C.zarr::C"),
        ("C.zarr::C", "C.zarr::D"),
    ],
)
def test_the_member_stays_what_it_was(files, begun, now):
    stop_after(3, lambda **k: multiply(begun, **k))
    before = contents(Path())
    with raises(StoreError, "member-differs"):
        multiply(now, resume=True)
    assert contents(Path()) == before
    assert multiply(begun, resume=True).resumed == 3
