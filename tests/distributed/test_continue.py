"""Stopped jobs: what they keep, and the same bits when the same job continues."""

import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.command import CommandLine, contents, read, same_bits, save
from tests.expect import first_number, raises
from tests.jobs import (
    OUTPUTS,
    TILES,
    K,
    M,
    N,
    at,
    compute_in_waves,
    finished,
    multiply,
    small_cluster,
    stop_after,
)
from tests.stored import left_behind
from twom_dist.errors import (
    EngineUnavailableError,
    MemoryLimitError,
    PlanError,
    StoreError,
)
from twom_dist.jobs import multiply_files, open_job, prepare, run, update_files
from twom_dist.store import Output

# Every thread may finish the tile that it has begun.
MORE = 8


# --- the same job again ---------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_stopped_job_goes_on_where_it_was(files, output):
    error = stop_after(7, lambda **k: multiply(output, **k))
    told = first_number(error.__notes__[0])
    assert f"{told} of 30 tiles are kept in " in error.__notes__[0]
    assert not Path(output.partition("::")[0]).exists()
    seen = []
    # Another engine, and the tile of the first run.
    summary = multiply(output, progress=seen.append, tile=None, engine="reference")
    kept = TILES - len(seen)
    assert 7 <= told <= kept <= 7 + MORE
    assert [p.done for p in seen] == list(range(kept + 1, TILES + 1))
    assert (summary.resumed, summary.tiles) == (kept, (5, 6, 4))
    assert summary.operations < 8 * M * N * K
    assert f"{kept} of them from before" in str(summary)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert left_behind() == []


@pytest.mark.parametrize(
    ("uplo", "output"), [("full", "C.zarr"), ("lower", "C.npy"), ("upper", "C.zarr")]
)
def test_updates_go_on_as_well(files, uplo, output):
    options = {"uplo": uplo, "tile": 16}
    stop_after(6, lambda **k: update_files("herk", "A.zarr", output, **options, **k))
    assert 6 <= update_files("herk", "A.zarr", output, **options).resumed <= 6 + MORE
    assert same_bits(read(output), td.herk(files[0], uplo=uplo))
    assert left_behind() == []


def test_a_tile_without_its_image_is_computed_again(files):
    stop_after(9, lambda **k: update_files("herk", "A.zarr", "C.zarr", tile=16, **k))
    i, j = next((i, j) for i, j in finished() if i < j)
    (chunk,) = Path().glob(f".C.zarr.unfinished/*.zarr/c/{i}/{j}")
    chunk.unlink()
    update_files("herk", "A.zarr", "C.zarr", tile=16)
    assert same_bits(read("C.zarr"), td.herk(files[0]))


def test_tiles_that_go_during_the_run_leave_no_output(files):
    def remove():
        i, j = min(finished("C.npy"))
        (chunk,) = Path().glob(f".C.npy.unfinished/*.zarr/c/{i}/{j}")
        chunk.unlink()

    with raises(StoreError, "tiles-gone"):
        multiply("C.npy", progress=at(9, remove))
    assert not Path("C.npy").exists()
    multiply("C.npy")
    assert same_bits(read("C.npy"), td.gemm(*files[:2]))


def test_other_workers_take_other_waves_of_the_same_tiles(files):
    job = open_job("gemm", "A.zarr", "B.npy", "C.zarr")
    stop_after(11, lambda progress: compute_in_waves(job, None, progress))
    summary = multiply(tile=None)
    assert (summary.waves, summary.tiles) == (1, (5, 6, 4))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    # Also of a tile that is larger than the matrices are long in k.
    stop_after(1, lambda **k: multiply(overwrite=True, tile=60, **k))
    assert multiply(tile=60).resumed >= 1


def test_a_run_under_way_is_left_alone(files):
    def try_too():
        for overwrite in (False, True):
            with raises(StoreError, "output-busy"):
                multiply(overwrite=overwrite)

    multiply(progress=at(9, try_too))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert left_behind() == []


def test_an_output_without_a_finished_tile_leaves_nothing(files, monkeypatch):
    def fail(*_):
        raise StoreError("no space is left", "Free some", "disk-full")

    monkeypatch.setattr(Output, "write", fail)
    with raises(StoreError, "disk-full"):
        multiply()
    assert left_behind() == []


def test_what_cannot_get_its_name_needs_no_second_computation(files):
    with raises(StoreError, "output-exists"):
        multiply("C.npy", progress=at(TILES, partial(save, "C.npy", np.eye(3))))
    assert same_bits(read("C.npy"), np.eye(3))
    Path("C.npy").unlink()
    assert multiply("C.npy").resumed == TILES
    assert same_bits(read("C.npy"), td.gemm(*files[:2]))


# --- anew -----------------------------------------------------------------------------


def test_a_finished_output_stays_until_the_new_one_is_whole(files):
    save("C.zarr", np.eye(3))
    stop_after(5, lambda **k: multiply(num_moduli=12, overwrite=True, **k))
    stopped = stop_after(3, lambda **k: multiply(overwrite=True, **k))
    assert "the same job without overwrite continues" in stopped.__notes__[0]
    assert same_bits(read("C.zarr"), np.eye(3))
    # It was said once that it may be replaced.
    assert 3 <= multiply().resumed <= 3 + MORE
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert left_behind() == []
    with raises(StoreError, "output-exists"):
        multiply()


# --- what is refused loses nothing ----------------------------------------------------

CHANGES = [
    {"alpha": 2},
    {"op_a": "C", "a": "AH.npy"},
    {"num_moduli": 12},
    {"accuracy": 1e-6},
    {"method": "3m"},
    {"method": "native"},
    {"beta": 1, "c": "C0.h5"},
    {"b": "B2.npy"},
]


def test_another_job_or_version_is_refused(files, monkeypatch):
    save("AH.npy", files[0].conj().T)
    save("B2.npy", files[1])
    stop_after(3, multiply)
    before = contents(Path())
    for changes in CHANGES:
        options = {"a": "A.zarr", "b": "B.npy", **changes}
        with raises(StoreError, "unfinished-differs"):
            multiply_files(output="C.zarr", **options)
    with raises(PlanError, "tile-differs"):
        multiply(tile=20)
    with monkeypatch.context() as patch:
        patch.setattr(td, "__version__", "9.9")
        with raises(StoreError, "unfinished-differs"):
            multiply()
    assert contents(Path()) == before
    (metadata,) = Path().glob(".C.zarr.unfinished/*/zarr.json")
    metadata.write_text(metadata.read_text().replace('"form": ', '"form": 1'))
    with raises(StoreError, "unfinished-version"):
        multiply()
    metadata.write_text("{")
    with raises(StoreError, "unfinished-damaged"):
        multiply()
    assert multiply(overwrite=True).resumed == 0


@pytest.mark.parametrize("name", ["A.zarr", "B.npy"])
def test_a_changed_input_is_refused(files, name):
    stop_after(3, multiply)
    # Of a zarr one chunk: the metadata file stays as it is.
    path = Path("A.zarr/c/0/0" if name == "A.zarr" else name)
    path.write_bytes(path.read_bytes())
    with raises(StoreError, "unfinished-input-changed") as caught:
        multiply()
    assert name in caught.value.problem


def test_the_member_of_a_zarr_stays_what_it_was(files):
    for begun, now in (("C.zarr", "C.zarr::C"), ("D.zarr::C", "D.zarr::D")):
        stop_after(3, lambda begun=begun, **k: multiply(begun, **k))
        with raises(StoreError, "unfinished-damaged"):
            multiply(now)
        assert multiply(begun).resumed >= 3


def test_a_native_product_stays_with_its_engine_and_panels(files):
    stop_after(3, lambda **k: multiply(method="native", **k))
    with raises(StoreError, "unfinished-differs"):
        multiply(method="native", engine="reference")
    panels = dask.config.set({"twom-dist.panel-bytes": 1})
    with panels, raises(StoreError, "unfinished-differs"):
        multiply(method="native")
    multiply(method="native")
    expected = td.gemm(*files[:2], method="native")
    np.testing.assert_allclose(read("C.zarr"), expected, rtol=1e-13)


def test_what_cannot_be_computed_is_refused_and_kept(files, capsys, monkeypatch):
    stop_after(4, multiply)
    before = contents(Path())
    for overwrite in (False, True):
        job = open_job("gemm", "A.zarr", "B.npy", "C.zarr", overwrite=overwrite)
        with raises(MemoryLimitError, "memory"):
            prepare(job, small_cluster(2**10))

    def refuse(name):
        raise EngineUnavailableError("there is no compiler", "Install one", "x")

    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--overwrite")
    with monkeypatch.context() as patch:
        patch.setattr(run, "get_engine", refuse)
        for workers in ("0", "1"):
            CommandLine(capsys).assert_refuses(*product, "--workers", workers, why="x")
    assert contents(Path()) == before


def test_the_disk_is_full_only_beside_what_is_there(files, monkeypatch):
    stop_after(4, multiply)
    before, kept = contents(Path()), len(finished())
    free = SimpleNamespace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    for overwrite in (False, True):
        with raises(StoreError, "disk-full"):
            multiply(overwrite=overwrite)
    assert contents(Path()) == before
    free.free = (TILES - kept) * 16**2 * 16
    assert multiply(overwrite=True).resumed == 0


def test_workers_that_are_refused_discard_nothing(files, client, capsys):
    # Each process finds the folder that it works in there.
    paths = ("/proc/self/cwd/A.zarr", "B.npy")
    stop_after(4, lambda **k: multiply_files(*paths, "C.zarr", tile=16, **k))
    before = contents(Path())
    product = ("gemm", *paths, "-o", "C.zarr", "--overwrite")
    with dask.config.set({"temporary-directory": str(Path("B.npy").absolute())}):
        why = "workers-did-not-start"
        CommandLine(capsys).assert_refuses(*product, "--workers", "1", why=why)
    assert contents(Path()) == before
    with raises(StoreError, "file-not-on-worker"):
        multiply_files(*paths, "C.zarr", tile=16, client=client, overwrite=True)
    product = (*product, "--scheduler", client.scheduler.address)
    CommandLine(capsys).assert_refuses(*product, why="file-not-on-worker")
    assert contents(Path()) == before
    assert multiply_files(*paths, "C.zarr").resumed >= 4
