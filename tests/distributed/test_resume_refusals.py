"""What cannot be continued as it is named, or as it was left, is refused in words."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.command import contents, save_operands
from tests.distributed.test_resume import RECORD, K, M, N, multiply, stop_after
from twom_dist.errors import StoreError
from twom_dist.jobs import begin, open_job
from twom_dist.plan import Cluster


@pytest.fixture
def files(tmp_path, monkeypatch, every_tile_recorded):
    """A, B and C0 in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return save_operands(M, K, N)


@pytest.mark.parametrize("size", [3, 900])
def test_a_record_cut_in_its_first_line_names_what_it_told_of(files, size):
    """Started anew without a word, the job would leave that where it is."""
    stop_after(3, multiply)
    (left,) = Path().glob("*.partial")
    os.truncate(RECORD, min(size, Path(RECORD).read_bytes().index(b"\n")))
    before = contents(Path())
    sentence = rf"is damaged; remove it and '{re.escape(left.name)}' beside it, and"
    for options in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(StoreError, match=sentence):
            multiply(**options)
    assert contents(Path()) == before


@pytest.mark.parametrize(
    ("begun", "now", "words"),
    [
        ("C.h5::C", "C.h5::D", "C.h5::D' was begun as member 'C'; name it so, or"),
        ("C.h5::g/C", "C.h5", "C.h5' was begun as member 'g/C'; name it so, or"),
        ("C.h5", "C.h5::C", "C.h5::C' was begun as member 'matrix'; name it so"),
        ("C.zarr", "C.zarr::C", "C.zarr::C' was begun without a member; name it so"),
        ("C.zarr::C", "C.zarr::D", "C.zarr::D' was begun as member 'C'; name it"),
    ],
)
def test_the_member_stays_what_it_was(files, begun, now, words):
    stop_after(3, lambda **k: multiply(begun, **k))
    before = contents(Path())
    with pytest.raises(StoreError, match=re.escape(words)):
        multiply(now, resume=True)
    assert contents(Path()) == before
    assert multiply(begun, resume=True).resumed == 3


def test_smaller_workers_keep_what_they_have_room_for(files, monkeypatch):
    stop_after(3, multiply)
    small = SimpleNamespace(cache_bytes=5)
    monkeypatch.setattr("twom_dist.jobs.run.plan_wave", lambda *_, **__: small)
    job = open_job("A.zarr", "B.npy", "C.zarr")
    attempt = begin(job, Cluster(), resume=True)
    attempt.abandon()
    assert attempt.layout.cache_bytes == 5
    assert len(attempt.finished) == 3
