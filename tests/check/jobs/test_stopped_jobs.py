"""Jobs that were stopped: they go on to the same bits, or are refused and lose nothing.

Also what changes, goes or is damaged while a job runs.
"""

import json
import os
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path

import dask
import numpy as np
import pytest
from numpy.lib.format import open_memmap

import twom_dist as td
from tests.support.cases import cases
from tests.support.command import contents, make, read, save
from tests.support.expect import first_number, raises, same_bits
from tests.support.jobs import TILES, at, compute_in, finished, multiply, stop_after
from tests.support.stored import disguise, left_behind
from twom_dist.errors import StoreError
from twom_dist.jobs import open_job
from twom_dist.store import find_unfinished

# Every thread may finish the tile that it has begun.
MORE = 8


def chunk_of(output, i, j):
    """Find a tile of what is unfinished of an output."""
    (chunk,) = Path().glob(f".{output}.unfinished/*.zarr/c/{i}/{j}")
    return chunk


def flip(path):
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


# --- going on -------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["C.zarr", "C.npy", "C.h5::g/C", "C.npz"])
def test_a_stopped_job_goes_on_where_it_was(files, output):
    error = stop_after(7, partial(multiply, output))
    told = first_number(error.__notes__[0])
    assert f"{told} of 30 tiles are kept in " in error.__notes__[0]
    assert not Path(output.partition("::")[0]).exists()
    seen, damaged = [], 0
    if output == "C.npy":
        # What the disk has damaged is computed again.
        (flipped, zeroed, *_), damaged = sorted(finished(output)), 2
        flip(chunk_of(output, *flipped))
        chunk = chunk_of(output, *zeroed)
        chunk.write_bytes(bytes(chunk.stat().st_size))
    # Another engine, and the tiles of the first run.
    summary = multiply(output, progress=seen.append, chunks=20, engine="reference")
    kept = TILES - len(seen)
    assert 7 <= told <= kept + damaged <= 7 + MORE
    assert [p.done for p in seen] == list(range(kept + 1, TILES + 1))
    assert (summary.resumed, summary.damaged) == (kept, damaged)
    assert summary.tiles == (5, 6, 2)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert left_behind() == []


def test_a_tile_is_kept_with_its_image(files):
    job = partial(td.rank_k_files, td.herk, "A.zarr", "C.npy", chunks=16)
    stop_after(15, job)
    chunk_of("C.npy", 0, 1).unlink()
    flip(chunk_of("C.npy", 2, 2))
    summary = job()
    assert (summary.resumed, summary.damaged) == (13, 1)
    assert same_bits(read("C.npy"), td.herk(files[0]))


def test_other_workers_take_the_same_tiles(files):
    """Also where an input is not a number, and where tasks read their own tiles."""
    a, b, _ = files
    a[3, 20] = np.nan
    np.save("N.npy", a)
    job = open_job(td.gemm.ask("N.npy", "B.npy"), "C.npy")
    stop_after(11, lambda progress: compute_in("waves", job, progress=progress))
    summary = td.multiply_files("N.npy", "B.npy", "C.npy")
    assert (summary.resumed >= 11, summary.tiles) == (True, (5, 6, 2))
    assert same_bits(read("C.npy"), td.gemm(a, b))
    job = open_job(td.herk.ask("N.npy", op="C"), "H.zarr")
    given = {"way": "streams", "job": job, "tile": 8}
    stop_after(4, lambda progress: compute_in(progress=progress, **given))
    assert td.rank_k_files(td.herk, "N.npy", "H.zarr", op="C").resumed >= 4
    assert same_bits(read("H.zarr"), td.herk(a, op="C"))


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


def test_a_folder_that_was_moved_can_be_moved_back(files):
    """A writer under way may have made a part of it again."""
    hidden = Path(".C.npy.unfinished")

    def move():
        hidden.rename("moved")
        (hidden / "0123456789ab.zarr" / "c").mkdir(parents=True)

    with raises(StoreError, "file-missing"):
        multiply("C.npy", progress=at(5, move))
    Path("moved").rename(hidden)
    assert multiply("C.npy").resumed >= 5


# --- looks ----------------------------------------------------------------------------

PATHS = {"A": "A.zarr", "B": "B.npy"}
CALLS = {
    "gemm": td.gemm.ask(**PATHS),
    "shifts alone": td.gemm.ask(**PATHS, num_moduli=14, equilibrate=True),
    "weighted": td.gemm.ask(A="A.zarr", B="A.zarr", op_a="T", diag=np.arange(1, 71.0)),
    "herk": td.herk.ask("A.zarr", op="C"),
}


def run(call, *, stop=False, overwrite=False):
    """Run a job, at most up to its first product; tell whether it looked."""
    phases = []

    def enter(phase):
        phases.append(phase)
        if stop and phase == "multiplying":
            raise KeyboardInterrupt

    job = open_job(call, "C.npy", overwrite=overwrite)
    with suppress(KeyboardInterrupt):
        compute_in("one wave", job, enter=enter)
    return "checking the data" in phases


@pytest.mark.parametrize("name", CALLS)
def test_the_next_run_does_not_look_again(files, name):
    # Rows of B are shifted against one another.
    save("B.npy", files[1] * 2.0 ** (np.arange(30)[:, np.newaxis] % 40))
    assert run(CALLS[name], stop=True)
    assert not run(CALLS[name])
    kept = read("C.npy")
    assert run(CALLS[name], overwrite=True)
    assert same_bits(kept, read("C.npy"))
    assert left_behind() == []


@cases("act", ["options", "overwrite", "input", "damage"])
def test_what_no_longer_holds_is_found_again(files, act):
    save("C.npy", np.eye(3))
    run(CALLS["gemm"], stop=True, overwrite=True)
    shifts_alone = {"num_moduli": 14, "equilibrate": True}
    options = shifts_alone if act == "options" else {}
    if act == "input":
        save("B.npy", 3 * make(30, 90, 5))
    if act == "damage":
        flip(Path(".C.npy.unfinished/look"))
    # A job that was to replace its output still does.
    assert run(td.gemm.ask(**PATHS, **options), overwrite=act != "damage")
    assert same_bits(read("C.npy"), td.gemm(files[0], read("B.npy"), **options))


# --- refused ----------------------------------------------------------------------


DIFFERENT = [
    {"alpha": 2},
    {"op_a": "C", "a": "AH.npy"},
    {"num_moduli": 12},
    {"accuracy": 1e-6},
    {"method": "3m"},
    {"method": "blas"},
    {"beta": 1, "c": "C0.h5"},
    {"b": "B2.npy"},
    {"diag": np.ones(30)},
]
# Of a manifest, which has a digest of itself.
DAMAGES = [
    dict.clear,
    lambda x: x.update(attributes={}),
    lambda x: x["attributes"]["twom_dist"].pop("id"),
    lambda x: x["attributes"]["twom_dist"].update(overwrite=True),
    lambda x: x.update(shape=[3, 4]),
]


def test_another_job_or_version_and_a_damaged_manifest_are_refused(files):
    save("AH.npy", files[0].conj().T)
    save("B2.npy", files[1])
    stop_after(3, multiply)
    before = contents(Path())
    for changes in DIFFERENT:
        options = {"a": "A.zarr", "b": "B.npy", **changes}
        with raises(StoreError, "unfinished-differs"):
            td.multiply_files(output="C.zarr", **options)
    assert contents(Path()) == before
    (metadata,) = Path().glob(".C.zarr.unfinished/*/zarr.json")
    whole = metadata.read_text()
    for change in DAMAGES:
        change(damaged := deepcopy(json.loads(whole)))
        metadata.write_text(json.dumps(damaged))
        with raises(StoreError, "unfinished-damaged"):
            multiply()
    metadata.write_text(whole)
    output, manifest = find_unfinished("C.zarr").find()
    output.record(made=manifest["made"] | {"twom_dist": "9.9"})
    with raises(StoreError, "unfinished-differs"):
        multiply()
    output.record(made=manifest["made"])
    assert multiply().resumed >= 3
    # The member of a zarr stays what it was.
    for begun, now in (("D.zarr", "D.zarr::C"), ("E.zarr::C", "E.zarr::D")):
        stop_after(3, partial(multiply, begun))
        with raises(StoreError, "unfinished-damaged"):
            multiply(now)
        assert multiply(begun).resumed >= 3


# Its content may have changed where its mode has.
CHANGES = [
    lambda path: path.write_bytes(path.read_bytes()),
    disguise,
    lambda path: path.chmod(path.stat().st_mode ^ 0o40),
]


# Of a zarr one chunk: the metadata file stays as it is.
@cases("changed", ["B.npy", "A.zarr/c/0/0"])
def test_inputs_that_may_be_others_are_refused(files, changed):
    np.save("C.npy", np.eye(3))
    for change in CHANGES:
        stop_after(3, partial(multiply, overwrite=True))
        change(Path(changed))
        before = contents(Path())
        with raises(StoreError, "unfinished-input-changed"):
            multiply()
        assert contents(Path()) == before
    # While a job runs, nothing is left that could be taken for a part of the result.
    for tile, change in zip((TILES, 9, 9), CHANGES, strict=True):
        with raises(StoreError, "input-changed"):
            multiply(
                "C.npy",
                overwrite=True,
                progress=at(tile, partial(change, Path(changed))),
            )
        assert same_bits(read("C.npy"), np.eye(3))
        assert left_behind() == [".C.zarr.unfinished"]


def test_a_native_product_stays_with_its_engine_and_panels(files):
    job = partial(multiply, method="blas")
    stop_after(3, job)
    with raises(StoreError, "unfinished-differs"):
        job(engine="reference")
    panels = dask.config.set({"twom-dist.panel-bytes": 1})
    with panels, raises(StoreError, "unfinished-differs"):
        job()
    job()
    expected = td.gemm(*files[:2], method="blas")
    np.testing.assert_allclose(read("C.zarr"), expected, rtol=1e-13)


def test_what_no_disk_can_hold_discards_nothing(files):
    stop_after(4, multiply)
    open_memmap("L.npy", "w+", "c16", (10**6, 1))
    kept = contents(Path(".C.zarr.unfinished"))
    given = {"op_b": "T", "num_moduli": 4, "overwrite": True, "chunks": 2048}
    with raises(StoreError, "disk-full"):
        td.multiply_files("L.npy", "L.npy", "C.zarr", **given)
    assert contents(Path(".C.zarr.unfinished")) == kept


# --- while a job runs -----------------------------------------------------------------


def try_too():
    for overwrite in (False, True):
        with raises(StoreError, "output-busy"):
            multiply("C.npy", overwrite=overwrite)


def remove_one():
    chunk_of("C.npy", *min(finished("C.npy"))).unlink()


def damage_one():
    flip(chunk_of("C.npy", 1, 2))


# What is done at a tile, the code of the error, and tiles that are kept.
@cases(
    ("tile", "act", "code", "kept"),
    [
        (9, try_too, None, 0),
        (9, remove_one, "tiles-gone", TILES - 1),
        # The export reads them once more.
        (TILES, damage_one, "tile-damaged", TILES - 1),
        (TILES, partial(save, "C.npy", np.eye(3)), "output-exists", TILES),
    ],
)
def test_what_happens_during_a_run_costs_no_other_tile(files, tile, act, code, kept):
    job = partial(multiply, "C.npy")
    if code is None:
        job(progress=at(tile, act))
    else:
        with raises(StoreError, code):
            job(progress=at(tile, act))
        if code == "output-exists":
            assert same_bits(read("C.npy"), np.eye(3))
            Path("C.npy").unlink()
        assert not Path("C.npy").exists()
        assert job().resumed >= kept
    assert same_bits(read("C.npy"), td.gemm(*files[:2]))
    assert left_behind() == []
    os.remove("C.npy")
