"""Stopped jobs: what they keep, who may continue it, and the same bits in the end."""

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.command import CommandLine, contents, read, same_bits, save, save_operands
from twom_dist.errors import MemoryLimitError, PlanError, StoreError
from twom_dist.jobs import Progress, lay_out, multiply_files, recorder, update_files
from twom_dist.jobs.recorder import Recorder
from twom_dist.jobs.writing import write_tile
from twom_dist.plan import Cluster
from twom_dist.store import Journal, _zarr, create_matrix, open_journal

ROOT = Path(__file__).resolve().parents[2]
M, K, N = 70, 50, 90
TILES = 5 * 6
OUTPUTS = ["C.zarr", "C.npy", "C.h5::g/C", "C.npz"]
RECORD = ".C.zarr.resume"


@pytest.fixture
def files(tmp_path, monkeypatch, every_tile_recorded):
    """A, B and C0 in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return save_operands(M, K, N)


def multiply(output="C.zarr", **options):
    return multiply_files("A.zarr", "B.npy", output, **{"tile": 16, **options})


def stop_after(tiles, run, kind=KeyboardInterrupt):
    """Interrupt a job when so many tiles are finished; return the exception."""

    def stop(progress: Progress) -> None:
        # The last ones are recorded as well, so that their number is known.
        if progress.done == tiles:
            raise kind

    with pytest.raises(kind) as caught:
        run(progress=stop)
    return caught.value


def finished(output="C.zarr"):
    """Tiles that the record of an output tells of."""
    record = open_journal(output)
    assert record is not None
    record.close()
    return record.finished


def hidden():
    return sorted(path.name for path in Path().glob(".*"))


# --- the same bits --------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_stopped_job_goes_on_where_it_was(files, output):
    error = stop_after(7, lambda **k: multiply(output, **k))
    assert finished(output) != set()
    assert not Path(output.partition("::")[0]).exists()
    (note,) = error.__notes__
    assert "7 of 30 tiles are kept in " in note
    assert "run it again with resume=True to continue" in note
    seen = []
    summary = multiply(output, resume=True, progress=seen.append, tile=None)
    assert [p.done for p in seen] == list(range(8, TILES + 1))
    assert (summary.resumed, summary.tiles) == (7, (5, 6, 4))
    assert summary.operations < 8 * M * N * K
    assert "30 tiles" in str(summary) or "7 of them from before" in str(summary)
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


def test_the_layout_is_kept_whatever_the_workers_have_now(files, monkeypatch):
    def cut(*args, **kwargs):
        return lay_out(*args[:2], Cluster(2, 1, 2**18), **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("twom_dist.jobs.job.lay_out", cut)
        stop_after(11, multiply)
    summary = multiply(resume=True)
    assert summary.waves > 1
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_the_engine_may_be_another_one(files, engine):
    stop_after(5, multiply)
    multiply(resume=True, engine=engine)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_a_target_may_be_replaced_by_what_is_continued(files):
    save("C.zarr", np.eye(3))
    stop_after(5, lambda **k: multiply(overwrite=True, **k))
    assert same_bits(read("C.zarr"), np.eye(3))
    with pytest.raises(StoreError, match="exists beside its unfinished"):
        multiply(resume=True)
    multiply(resume=True, overwrite=True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert hidden() == []


def test_where_nothing_is_left_the_job_starts(files):
    assert multiply(resume=True).resumed == 0
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


# --- what cannot be continued ---------------------------------------------------------


CHANGES = [
    ({"alpha": 2}, "begun with alpha 1.0 and this run has 2.0"),
    ({"op_a": "T"}, None),
    (
        {"num_moduli": 12},
        r"^'C.zarr' was begun with accuracy='native' \(16 moduli\) and this run has "
        "num_moduli=12; run it as it was begun, or start anew with overwrite=True "
        "alone$",
    ),
    ({"accuracy": 1e-6}, r"\(16 moduli\) and this run has accuracy=1e-06 \(6 moduli"),
    ({"method": "3m"}, "begun with method 2m and this run has 3m"),
    ({"scaling": "accurate"}, "begun with scaling norm and this run has accurate"),
    ({"method": "native"}, "begun with method 2m and this run has native"),
    ({"beta": 1, "c": "C0.h5"}, "begun with beta 0.0 and this run has 1.0"),
    ({"tile": 20}, "tile=20 given and 'C.zarr' was begun with 16 x 16 x 16"),
]


@pytest.mark.parametrize(("changes", "sentence"), CHANGES)
def test_another_job_is_refused(files, changes, sentence):
    stop_after(3, multiply)
    before = contents(Path())
    with pytest.raises((StoreError, PlanError), match=sentence):
        multiply(resume=True, **changes)
    assert contents(Path()) == before
    multiply(resume=True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


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
    with pytest.raises(StoreError, match=f"{name}' has changed since 'C.zarr' was"):
        multiply(resume=True)


def test_another_input_is_refused(files):
    stop_after(3, multiply)
    save("B2.npy", files[1])
    with pytest.raises(StoreError, match=r"with '.*/B.npy' as B and this run has '.*2"):
        multiply_files("A.zarr", "B2.npy", "C.zarr", resume=True)


def test_another_version_is_refused(files, monkeypatch):
    stop_after(3, multiply)
    monkeypatch.setattr(td, "__version__", "9.9")
    with pytest.raises(StoreError, match=r"begun with twom_dist .* and this .* 9\.9"):
        multiply(resume=True)


def test_a_record_of_another_form_is_refused(files):
    stop_after(3, multiply)
    path = Path(RECORD)
    path.write_text(path.read_text().replace('"form": 1', '"form": 2'))
    for resume in (False, True):
        with pytest.raises(StoreError, match="is of another version of twom_dist; con"):
            multiply(resume=resume)


def test_a_native_product_needs_the_same_panels(files, monkeypatch):
    stop_after(3, lambda **k: multiply(method="native", **k))
    with pytest.raises(StoreError, match="begun with engine cpu and this run has ref"):
        multiply(method="native", engine="reference", resume=True)
    with monkeypatch.context() as patch:
        patch.setattr("twom_dist.jobs.manifest.fit_panels", lambda *_: [0, 1])
        with pytest.raises(StoreError, match="with panels along k 1 and this run has"):
            multiply(method="native", resume=True)
    multiply(method="native", resume=True)
    expected = td.gemm(*files[:2], method="native")
    np.testing.assert_allclose(read("C.zarr"), expected, rtol=1e-13)


def test_workers_too_small_for_the_layout_are_refused(files, monkeypatch):
    stop_after(3, multiply)
    with monkeypatch.context() as patch:
        patch.setattr("distributed.system.MEMORY_LIMIT", 100 * 2**20)
        with pytest.raises(MemoryLimitError, match="was begun with other workers: 1 w"):
            multiply(resume=True)
    multiply(resume=True)


def test_a_leftover_is_not_touched_unasked(files, capsys):
    stop_after(4, multiply)
    before = contents(Path())
    sentence = r"stopped with 4 of 30 tiles of 'C.zarr' finished; continue .* resume="
    with pytest.raises(StoreError, match=sentence):
        multiply()
    code, _, err = CommandLine(capsys)("gemm", "A.zarr", "B.npy", "-o", "C.zarr")
    assert (code, err.count("\n")) == (2, 1)
    assert "with --resume, or start anew with --overwrite\n" in err
    assert contents(Path()) == before


def test_a_run_under_way_is_left_alone(files):
    def try_too(progress):
        if progress.done == 9:
            while not Path(RECORD).exists():
                time.sleep(0.01)
            for options in ({}, {"resume": True}, {"overwrite": True}):
                with pytest.raises(StoreError, match="is being written by another run"):
                    multiply(**options)

    multiply(progress=try_too)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert hidden() == []


# --- records --------------------------------------------------------------------------


def make_record(tmp_path):
    writer = create_matrix(tmp_path / "C.zarr", (4, 4), "f8", (2, 2))
    journal = Journal(writer.path, writer.draft.temporary, {"x": 1})
    journal.add([])
    return journal, writer


def test_a_line_that_was_cut_short_does_not_count(tmp_path):
    record, _ = make_record(tmp_path)
    record.add([(0, 1)])
    record.close()
    with open(record.path, "ab") as stream:
        stream.write(b'{"finished": [[1, 1]')
    again = open_journal(tmp_path / "C.zarr")
    assert (again.finished, again.subject) == ({(0, 1)}, {"x": 1})
    again.add([(1, 0), (0, 0)])
    again.close()
    last = open_journal(tmp_path / "C.zarr")
    assert last.finished == {(0, 1), (1, 0), (0, 0)}
    last.close()


def test_a_damaged_record_is_refused(tmp_path):
    sentence = r"\.C\.npy\.resume' is damaged; remove it"
    # What is named is renamed, written to and removed: it is a draft of C.npy.
    names = ["C.npy", "../C.npy", ".B.npy.0123456789ab.partial"]
    moved = [json.dumps({"subject": {}, "temporary": x}) + "\n" for x in names]
    damaged = "[1]\n", "}\n", '{"subject": {}}\n', '{"finished": 1}\n', '{"subj'
    for text in (*damaged, *moved):
        (tmp_path / ".C.npy.resume").write_text(text)
        with pytest.raises(StoreError, match=sentence):
            open_journal(tmp_path / "C.npy")


def test_a_record_of_nothing_goes(tmp_path):
    record, writer = make_record(tmp_path)
    record.close()
    writer.discard()
    assert open_journal(tmp_path / "C.zarr") is None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".C.npy.resume").write_bytes(b"")
    assert open_journal(tmp_path / "C.npy") is None
    assert list(tmp_path.iterdir()) == []


def test_a_kill_while_the_temporary_is_renamed_costs_nothing(tmp_path, monkeypatch):
    record, writer = make_record(tmp_path)
    moved = tmp_path / ".C.zarr.0123456789ab.partial"
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: 1 / 0)
        with pytest.raises(StoreError):
            record.move(str(moved))
    record.close()
    again = open_journal(tmp_path / "C.zarr")
    assert again.temporary == writer.draft.temporary
    again.move(str(moved))
    again.close()
    last = open_journal(tmp_path / "C.zarr")
    assert last.temporary == str(moved)
    last.close()


@pytest.mark.parametrize("output", ["C.zarr", "C.npy", "C.h5"])
def test_a_process_of_the_stopped_run_writes_no_more(files, output, monkeypatch):
    writers = []

    def create(*arguments, **options):
        writers.append(create_matrix(*arguments, **options))
        return writers[0]

    monkeypatch.setattr("twom_dist.jobs.run.create_matrix", create)
    stop_after(3, lambda **k: multiply(output, **k))
    multiply(output, resume=True)
    late = replace(writers[0].draft, temporary=writers[0].draft.temporary)
    monkeypatch.setattr("twom_dist.jobs.writing._stopped", set())
    with pytest.raises(StoreError, match=r"No such file|no such file|Unable"):
        write_tile(np.ones((16, 16)), replace(writers[0], draft=late), (0, 0))
    assert hidden() == []
    assert same_bits(read(output), td.gemm(*files[:2]))


def test_an_unfinished_output_that_was_cut_is_refused(files):
    stop_after(3, lambda **k: multiply("C.npy", **k))
    (temporary,) = Path().glob(".C.npy.*.partial")
    os.truncate(temporary, 1000)
    with pytest.raises(StoreError, match="is truncated"):
        multiply("C.npy", resume=True)


def test_short_jobs_are_not_recorded(files, monkeypatch):
    monkeypatch.setattr(recorder, "RECORD_SECONDS", 10)
    before = contents(Path())
    stop_after(29, multiply)
    assert contents(Path()) == before


def test_recording_takes_a_hundredth_of_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "RECORD_SECONDS", 0.01)
    monkeypatch.setattr(recorder, "RECORD_SHARE", 0.01)
    writer = create_matrix(tmp_path / "C.npy", (64, 64), "f8", (2, 2))
    made = Recorder(writer, Journal(writer.path, writer.draft.temporary, {}))
    monkeypatch.setattr(type(writer), "sync", lambda *_: time.sleep(0.01))
    end, begun, asked = time.monotonic() + 1, 0, 0.0
    while time.monotonic() < end:
        start = time.perf_counter()
        made.add(begun // 32, begun % 32)
        asked += time.perf_counter() - start
        begun = (begun + 1) % 1024
        time.sleep(0.001)
    assert made.keep()
    lines = Path(made.journal.path).read_text().splitlines()
    # 0.01 s of each whole second, the first one aside, and what `keep` adds.
    assert len([x for x in lines if "finished" in json.loads(x)]) <= 3
    assert asked < 0.1


def test_a_disk_that_is_full_when_it_is_synced_ends_the_job(files, monkeypatch):
    def sync(draft, regions):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_zarr, "sync", sync)
    before = contents(Path())
    with pytest.raises(StoreError, match=r"No space left .* free some space"):
        multiply(progress=lambda _: time.sleep(0.01))
    assert contents(Path()) == before
