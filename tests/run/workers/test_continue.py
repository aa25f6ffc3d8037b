"""Stopped jobs: what they keep, and the same bits when the same job continues."""

import json
import shutil
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import contents, read, save
from tests.support.expect import first_number, raises
from tests.support.jobs import (
    OUTPUTS,
    TILES,
    K,
    M,
    N,
    at,
    compute_in_waves,
    finished,
    multiply,
    stop_after,
)
from tests.support.stored import disguise, left_behind
from twom_dist.api.files import multiply_files, update_files
from twom_dist.errors import StoreError
from twom_dist.jobs import open_job

# Every thread may finish the tile that it has begun.
MORE = 8


def remove_tile(output, i, j):
    """Remove a tile of what is unfinished of an output."""
    (chunk,) = Path().glob(f".{output}.unfinished/*.zarr/c/{i}/{j}")
    chunk.unlink()


# --- the same job again ---------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_stopped_job_goes_on_where_it_was(files, output):
    error = stop_after(7, partial(multiply, output))
    told = first_number(error.__notes__[0])
    assert f"{told} of 30 tiles are kept in " in error.__notes__[0]
    assert not Path(output.partition("::")[0]).exists()
    seen = []
    # Another engine, and the tiles of the first run.
    summary = multiply(output, progress=seen.append, chunks=20, engine="reference")
    kept = TILES - len(seen)
    assert 7 <= told <= kept <= 7 + MORE
    assert [p.done for p in seen] == list(range(kept + 1, TILES + 1))
    assert (summary.resumed, summary.tiles) == (kept, (5, 6, 2))
    assert summary.operations < 8 * M * N * K
    assert f"{kept} of them from before" in str(summary)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert left_behind() == []


@pytest.mark.parametrize(("uplo", "output"), [("full", "C.zarr"), ("lower", "C.npy")])
def test_updates_go_on_as_well(files, uplo, output):
    run = partial(update_files, td.herk, "A.zarr", output, uplo=uplo, chunks=16)
    stop_after(6, run)
    done = finished(output)
    if uplo == "full":
        # A tile without its image is computed again.
        i, j = next((i, j) for i, j in done if i < j)
        remove_tile(output, i, j)
    assert 5 <= run().resumed <= 6 + MORE
    assert same_bits(read(output), td.herk(files[0], uplo=uplo))
    assert left_behind() == []


def test_tiles_that_go_during_the_run_leave_no_output(files):
    def remove():
        remove_tile("C.npy", *min(finished("C.npy")))

    with raises(StoreError, "tiles-gone"):
        multiply("C.npy", progress=at(9, remove))
    assert not Path("C.npy").exists()
    multiply("C.npy")
    assert same_bits(read("C.npy"), td.gemm(*files[:2]))


def flip(output, i, j):
    """Flip a bit of a tile of what is unfinished of an output."""
    (chunk,) = Path().glob(f".{output}.unfinished/*.zarr/c/{i}/{j}")
    data = bytearray(chunk.read_bytes())
    data[100] ^= 1
    chunk.write_bytes(data)


@pytest.mark.parametrize("alone", [True, False])
def test_tiles_that_the_disk_has_damaged_are_computed_again(request, files, alone):
    client = None if alone else request.getfixturevalue("client")
    stop_after(7, partial(multiply, "C.npy"))
    (flipped, zeroed, *_), there = sorted(finished("C.npy")), len(finished("C.npy"))
    flip("C.npy", *flipped)
    (chunk,) = Path().glob(".C.npy.unfinished/*.zarr/c/{}/{}".format(*zeroed))
    chunk.write_bytes(bytes(chunk.stat().st_size))
    summary = multiply("C.npy", client=client)
    assert (summary.resumed, summary.damaged) == (there - 2, 2)
    assert "2 tiles from before found damaged on disk" in str(summary)
    assert same_bits(read("C.npy"), td.gemm(*files[:2]))


@pytest.mark.parametrize(("output", "verify"), [("C.npy", False), ("C.zarr", True)])
def test_tiles_damaged_during_the_run_leave_no_output(files, output, verify):
    """Where they are read once more: for an export, or to verify them."""
    damage = at(TILES, lambda: flip(output, 1, 2))
    with raises(StoreError, "tile-damaged") as caught:
        multiply(output, verify=verify, progress=damage)
    assert f"{TILES} of {TILES} tiles are kept" in caught.value.__notes__[0]
    assert not Path(output).exists()
    assert multiply(output).damaged == 1
    assert same_bits(read(output), td.gemm(*files[:2]))


def test_other_workers_take_other_waves_of_the_same_tiles(files):
    job = open_job(td.gemm.ask("A.zarr", "B.npy"), "C.zarr")
    stop_after(11, lambda progress: compute_in_waves(job, None, progress))
    summary = multiply(chunks=None)
    assert (summary.waves, summary.tiles) == (1, (5, 6, 2))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    # Also of a tile that is larger than the matrices are long in k.
    stop_after(1, partial(multiply, overwrite=True, chunks=60))
    assert multiply(chunks=60).resumed >= 1


def test_a_run_under_way_is_left_alone(files):
    def try_too():
        for overwrite in (False, True):
            with raises(StoreError, "output-busy"):
                multiply(overwrite=overwrite)

    multiply(progress=at(9, try_too))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
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
    stop_after(5, partial(multiply, num_moduli=12, overwrite=True))
    stopped = stop_after(3, partial(multiply, overwrite=True))
    assert "without overwrite" in stopped.__notes__[0]
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
    {"method": "blas"},
    {"beta": 1, "c": "C0.h5"},
    {"b": "B2.npy"},
]


def test_another_job_input_or_version_is_refused(files, monkeypatch):
    save("AH.npy", files[0].conj().T)
    save("B2.npy", files[1])
    stop_after(3, multiply)
    before = contents(Path())
    for changes in CHANGES:
        options = {"a": "A.zarr", "b": "B.npy", **changes}
        with raises(StoreError, "unfinished-differs"):
            multiply_files(output="C.zarr", **options)
    with monkeypatch.context() as patch:
        patch.setattr(td, "__version__", "9.9")
        with raises(StoreError, "unfinished-differs"):
            multiply()
    assert contents(Path()) == before
    (metadata,) = Path().glob(".C.zarr.unfinished/*/zarr.json")
    metadata.write_text("{")
    with raises(StoreError, "unfinished-damaged"):
        multiply()
    assert multiply(overwrite=True).resumed == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes()),
        disguise,
        # Its content may have changed as well.
        lambda path: path.chmod(0o600),
    ],
)
def test_inputs_that_may_be_others_are_refused(files, change):
    # Of a zarr one chunk: the metadata file stays as it is.
    for changed in ("B.npy", "A.zarr/c/0/0"):
        stop_after(3, partial(multiply, overwrite=True))
        change(Path(changed))
        before = contents(Path())
        with raises(StoreError, "unfinished-input-changed") as caught:
            multiply()
        assert changed.partition("/")[0] in caught.value.problem
        assert contents(Path()) == before


def test_damaged_manifests_are_refused_in_one_way(files):
    stop_after(3, multiply)
    (metadata,) = Path().glob(".C.zarr.unfinished/*/zarr.json")
    whole = json.loads(metadata.read_text())
    changes = [
        lambda x: x.update(attributes={}),
        lambda x: x.update(attributes={"twom_dist": []}),
        lambda x: x["attributes"]["twom_dist"].pop("id"),
        lambda x: x["attributes"]["twom_dist"].pop("made"),
        lambda x: x["attributes"]["twom_dist"].update(made=3),
        lambda x: x["attributes"]["twom_dist"].update(tile=["x", None]),
        lambda x: x["attributes"]["twom_dist"]["inputs"].update(A=None),
        lambda x: x["attributes"]["twom_dist"]["stamps"].pop("B"),
        lambda x: x["attributes"]["twom_dist"].update(overwrite=True),
        lambda x: x.update(shape=[3, 4]),
    ]
    for change in changes:
        damaged = deepcopy(whole)
        change(damaged)
        metadata.write_text(json.dumps(damaged))
        with raises(StoreError, "unfinished-damaged"):
            multiply()
    metadata.write_text(json.dumps(whole))
    assert multiply().resumed >= 3


def test_the_member_of_a_zarr_stays_what_it_was(files):
    for begun, now in (("C.zarr", "C.zarr::C"), ("D.zarr::C", "D.zarr::D")):
        stop_after(3, partial(multiply, begun))
        with raises(StoreError, "unfinished-damaged"):
            multiply(now)
        assert multiply(begun).resumed >= 3


def test_a_native_product_stays_with_its_engine_and_panels(files):
    run = partial(multiply, method="blas")
    stop_after(3, run)
    with raises(StoreError, "unfinished-differs"):
        run(engine="reference")
    panels = dask.config.set({"twom-dist.panel-bytes": 1})
    with panels, raises(StoreError, "unfinished-differs"):
        run()
    run()
    expected = td.gemm(*files[:2], method="blas")
    np.testing.assert_allclose(read("C.zarr"), expected, rtol=1e-13)


def test_what_cannot_be_done_discards_nothing(files, client, monkeypatch):
    """Also where the old tiles are no longer wanted."""
    # Each process finds the folder that it works in there.
    paths = ("/proc/self/cwd/A.zarr", "B.npy", "C.zarr")
    stop_after(4, partial(multiply_files, *paths, chunks=16))
    before, kept = contents(Path()), len(finished())
    free = SimpleNamespace(free=1000)

    for overwrite in (False, True):
        again = partial(multiply_files, *paths, overwrite=overwrite)
        with raises(StoreError, "file-not-on-worker"):
            again(client=client)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _: free)
            with raises(StoreError, "disk-full"):
                again()
        assert contents(Path()) == before
    # Room for the tiles that are missing is enough.
    free.free = (TILES - kept) * 16**2 * 16
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    assert multiply_files(*paths, chunks=16, overwrite=True).resumed == 0
