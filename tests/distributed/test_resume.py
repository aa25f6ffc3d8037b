"""Stopped jobs: what they keep, and the same bits when they are continued."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.command import contents, read, same_bits, save
from tests.expect import raises
from tests.jobs import (
    OUTPUTS,
    TILES,
    K,
    M,
    N,
    compute_in_waves,
    finished,
    hidden,
    multiply,
    small_cluster,
    stop_after,
)
from twom_dist.errors import StoreError
from twom_dist.jobs import (
    begin,
    compute,
    open_job,
    recorder,
    run_job,
    update_files,
    writing,
)
from twom_dist.jobs.recorder import Recorder
from twom_dist.jobs.writing import write_tile
from twom_dist.plan import Cluster
from twom_dist.store import Journal, _zarr, create_matrix

JOURNAL = Path(".C.zarr.resume")

pytestmark = pytest.mark.usefixtures("every_tile_recorded")


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_stopped_job_goes_on_where_it_was(files, output):
    error = stop_after(7, lambda **k: multiply(output, **k))
    assert len(finished(output)) == 7
    assert not Path(output.partition("::")[0]).exists()
    assert "7 of 30 tiles are kept in " in error.__notes__[0]
    seen = []
    summary = multiply(output, resume=True, progress=seen.append, tile=None)
    assert [p.done for p in seen] == list(range(8, TILES + 1))
    assert (summary.resumed, summary.tiles) == (7, (5, 6, 4))
    assert summary.operations < 8 * M * N * K
    assert "7 of them from before" in str(summary)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert hidden() == []


@pytest.mark.parametrize("output", ["C.zarr", "C.npy"])
@pytest.mark.parametrize("uplo", ["full", "lower", "upper"])
def test_updates_go_on_as_well(files, uplo, output):
    options = {"uplo": uplo, "tile": 16}
    stop_after(6, lambda **k: update_files("herk", "A.zarr", output, **options, **k))
    summary = update_files("herk", "A.zarr", output, resume=True, **options)
    assert summary.resumed == 6
    assert same_bits(read(output), td.herk(files[0], uplo=uplo))
    assert hidden() == []


def test_a_job_is_stopped_again_and_again(files):
    for tiles in (1, 2, 9, 20, 29):
        stop_after(tiles, lambda **k: multiply(resume=True, beta=2, c="C0.h5", **k))
        assert len(finished()) == tiles
    multiply(resume=True, beta=2, c="C0.h5")
    assert same_bits(read("C.zarr"), td.gemm(*files, beta=2))
    assert hidden() == []


def test_the_layout_is_kept_whatever_the_workers_have_now(files):
    job = open_job("gemm", "A.zarr", "B.npy", "C.zarr")
    stop_after(11, lambda progress: compute_in_waves(job, None, progress))
    assert multiply(resume=True).waves > 1
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_smaller_workers_keep_what_they_have_room_for(files):
    stop_after(3, multiply)
    job = open_job("gemm", "A.zarr", "B.npy", "C.zarr")
    kept = []
    for cluster in (Cluster(), small_cluster(2**20)):
        run = begin(job, cluster, resume=True)
        run.abandon()
        assert len(run.finished) == 3
        kept.append(run.layout.spec.cache_bytes)
    assert kept[0] > kept[1]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_the_engine_may_be_another_one(files, engine):
    stop_after(5, multiply)
    multiply(resume=True, engine=engine)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_a_target_may_be_replaced_by_what_is_continued(files):
    save("C.zarr", np.eye(3))
    stop_after(5, lambda **k: multiply(overwrite=True, **k))
    assert same_bits(read("C.zarr"), np.eye(3))
    with raises(StoreError, "resume-beside-output"):
        multiply(resume=True)
    multiply(resume=True, overwrite=True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert hidden() == []


def test_where_nothing_is_left_the_job_starts(files):
    assert multiply(resume=True).resumed == 0
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_a_run_under_way_is_left_alone(files):
    def try_too(progress):
        if progress.done == 9:
            while not JOURNAL.exists():
                time.sleep(0.01)
            for options in ({}, {"resume": True}, {"overwrite": True}):
                with raises(StoreError, "output-busy"):
                    multiply(**options)

    multiply(progress=try_too)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert hidden() == []


@pytest.mark.parametrize("output", ["C.zarr", "C.npy", "C.h5"])
def test_a_process_of_the_stopped_run_writes_no_more(files, output, monkeypatch):
    run = begin(open_job("gemm", "A.zarr", "B.npy", output), Cluster(), 16)
    late = replace(run.writer)
    stop_after(3, lambda progress: compute(run, progress=progress))
    run_job(open_job("gemm", "A.zarr", "B.npy", output), resume=True)
    # As a worker that nobody could tell to stop.
    monkeypatch.setattr(writing, "_stopped", set())
    with raises(StoreError, "file-missing"):
        write_tile(np.ones((16, 16)), (0, 0), late)
    assert hidden() == []
    assert same_bits(read(output), td.gemm(*files[:2]))


def test_short_jobs_are_not_recorded(files, monkeypatch):
    monkeypatch.setattr(recorder, "RECORD_SECONDS", 10)
    before = contents(Path())
    stop_after(29, multiply)
    assert contents(Path()) == before


def test_recording_takes_a_hundredth_of_the_time(tmp_path, monkeypatch):
    """By a clock that only a sync moves, and a tile."""
    clock = [0.0]
    monkeypatch.setattr(recorder, "monotonic", lambda: clock[0])
    monkeypatch.setattr(recorder, "RECORD_SECONDS", 0.01)
    monkeypatch.setattr(recorder, "RECORD_SHARE", 0.01)
    writer = create_matrix(tmp_path / "C.npy", (64, 64), "f8", (2, 2))
    made = Recorder(writer, Journal(writer.path, writer.temporary, {}))
    syncs = []

    def sync(*_):
        syncs.append(clock[0])
        clock[0] += 0.01

    monkeypatch.setattr(type(writer), "sync", sync)
    for tile in range(1000):
        made.add(tile // 32, tile % 32)
        made.settle()
        clock[0] += 0.004
    assert made.keep()
    # Of each second 0.01 s, and what `keep` adds: 4 s are 5 syncs.
    assert 4 <= len(syncs) - 1 <= 5


def test_a_disk_that_is_full_when_it_is_synced_ends_the_job(files, monkeypatch):
    def sync(draft, regions):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(_zarr, "sync", sync)
    before = contents(Path())
    with raises(StoreError, "disk-full"):
        multiply(progress=lambda _: time.sleep(0.01))
    assert contents(Path()) == before
