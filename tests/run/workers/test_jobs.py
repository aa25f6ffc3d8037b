"""Jobs alone and on workers: the same bits, whatever stops or damages them."""

import json
import os
from functools import partial
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import CommandLine, contents, read, save
from tests.support.expect import first_number, raises
from tests.support.jobs import (
    TILES,
    K,
    M,
    N,
    at,
    compute_in_waves,
    finished,
    local_workers,
    multiply,
    stop_after,
    task_names,
    wait_until,
)
from tests.support.stored import disguise, left_behind
from twom_dist.errors import StoreError
from twom_dist.jobs import open_job

# Every thread may finish the tile that it has begun.
MORE = 8


@pytest.fixture
def workers(request):
    """Find the workers of a job, or none if it is to run alone."""
    return lambda alone: None if alone else request.getfixturevalue("client")


# --- the result -----------------------------------------------------------------------


@pytest.mark.parametrize("output", ["C.zarr", "C.npz"])
def test_every_output_has_the_bits_of_gemm(client, files, output):
    seen = []
    options = {} if output == "C.zarr" else {"num_moduli": 16}
    summary = multiply(output, client=client, progress=seen.append, **options)
    assert same_bits(read(output), td.gemm(*files[:2], **options))
    assert [(p.done, p.tiles) for p in seen] == [(i, 30) for i in range(1, 31)]
    assert seen[-1].operations == 8 * M * N * K
    assert (summary.shape, summary.tiles) == ((M, N, K), (5, 6, 2))
    assert (summary.method, summary.num_moduli, summary.waves) == ("2m", 16, 1)
    assert summary.gflops == pytest.approx(8 * M * N * K / summary.seconds / 1e9)
    assert sorted(os.listdir()) == sorted(["A.zarr", "B.npy", "C0.h5", output])


HYBRID = {"alpha": 2 - 1j, "beta": 0.5j, "method": "hybrid", "accuracy": 1e-20}
WAVES = [
    ("gemm", "C.h5", True, HYBRID),
    ("gemm", "C.zarr", False, HYBRID),
    ("gemm", "C.zarr", True, {"equilibrate": True, "beta": 0.5}),
    ("herk", "C.zarr", False, {}),
    ("syr2k", "C.zarr", False, {"uplo": "lower", "num_moduli": 16}),
]


@pytest.mark.parametrize(("routine", "output", "alone", "options"), WAVES)
def test_waves_give_the_same_bits(workers, files, routine, output, alone, options):
    a, b, c = files
    if "equilibrate" in options:
        # Rows are shifted against one another.
        b *= 2.0 ** (np.arange(K)[:, np.newaxis] % 20)
        save("B.npy", b)
    save("A2.npy", 2 * a)
    matrices = {"A.zarr": a, "B.npy": b, "C0.h5": c}
    if routine != "gemm":
        matrices = {"A.zarr": a} | ({"A2.npy": 2 * a} if "2k" in routine else {})
    job = open_job(getattr(td, routine).ask(*matrices, **options), output)
    assert compute_in_waves(job, workers(alone)).waves > 2
    assert same_bits(read(output), getattr(td, routine)(*matrices.values(), **options))


# --- stopped and continued ------------------------------------------------------------


def chunk_of(output, i, j):
    """Find a tile of what is unfinished of an output."""
    (chunk,) = Path().glob(f".{output}.unfinished/*.zarr/c/{i}/{j}")
    return chunk


def flip(output, i, j):
    """Flip a bit of a tile of what is unfinished of an output."""
    chunk = chunk_of(output, i, j)
    data = bytearray(chunk.read_bytes())
    data[100] ^= 1
    chunk.write_bytes(data)


@pytest.mark.parametrize(
    ("output", "alone"),
    [("C.zarr", True), ("C.npy", False), ("C.h5::g/C", True), ("C.npz", True)],
)
def test_a_stopped_job_goes_on_where_it_was(workers, files, output, alone):
    client = workers(alone)
    error = stop_after(7, partial(multiply, output, client=client))
    told = first_number(error.__notes__[0])
    assert f"{told} of 30 tiles are kept in " in error.__notes__[0]
    assert not Path(output.partition("::")[0]).exists()
    assert alone or wait_until(lambda: not task_names(client)) is None
    seen, damaged = [], 0
    if output == "C.npy":
        # What the disk has damaged is computed again.
        (flipped, zeroed, *_), damaged = sorted(finished(output)), 2
        flip(output, *flipped)
        chunk = chunk_of(output, *zeroed)
        chunk.write_bytes(bytes(chunk.stat().st_size))
    # Another engine, and the tiles of the first run.
    given = {"chunks": 20, "engine": "reference", "client": client}
    summary = multiply(output, progress=seen.append, **given)
    kept = TILES - len(seen)
    assert 7 <= told <= kept + damaged <= 7 + MORE
    assert [p.done for p in seen] == list(range(kept + 1, TILES + 1))
    assert (summary.resumed, summary.tiles) == (kept, (5, 6, 2))
    assert (summary.damaged, summary.operations < 8 * M * N * K) == (damaged, True)
    assert f"{kept} of them from before" in str(summary)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert left_behind() == []


def test_other_workers_take_other_waves_of_the_same_tiles(files):
    job = open_job(td.gemm.ask("A.zarr", "B.npy"), "C.zarr")
    stop_after(11, lambda progress: compute_in_waves(job, None, progress))
    summary = multiply(chunks=None)
    assert (summary.waves, summary.tiles) == (1, (5, 6, 2))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    # Also of a tile that is larger than the matrices are long in k.
    stop_after(1, partial(multiply, overwrite=True, chunks=60))
    assert multiply(chunks=60).resumed >= 1


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


# --- what happens during a run --------------------------------------------------------


def try_too():
    for overwrite in (False, True):
        with raises(StoreError, "output-busy"):
            multiply("C.npy", overwrite=overwrite)


def remove_one():
    chunk_of("C.npy", *min(finished("C.npy"))).unlink()


# What is done at a tile, the code of the error, and tiles that are kept.
DURING = [
    (9, try_too, None, 0, False),
    (9, remove_one, "tiles-gone", TILES - 1, False),
    # Tiles are read once more: to verify them, or for an export.
    (9, remove_one, "tiles-gone", TILES - 1, True),
    (TILES, partial(flip, "C.npy", 1, 2), "tile-damaged", TILES - 1, False),
    (TILES, partial(flip, "C.npy", 1, 2), "tile-damaged", TILES - 1, True),
    (TILES, partial(save, "C.npy", np.eye(3)), "output-exists", TILES, False),
]


@pytest.mark.parametrize(("tile", "act", "code", "kept", "verify"), DURING)
def test_what_happens_during_a_run_costs_no_other_tile(
    files, tile, act, code, kept, verify
):
    job = partial(multiply, "C.npy", verify=verify)
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
def test_an_input_that_changes_leaves_no_output(workers, files, alone, tiles, change):
    np.save("C.npy", np.eye(3))
    job = partial(multiply, "C.npy", client=workers(alone), overwrite=True)
    with raises(StoreError, "input-changed"):
        job(progress=at(tiles, change))
    assert same_bits(read("C.npy"), np.eye(3))
    # Nor anything that a later run could take for a part of the result.
    assert left_behind() == []


# --- commands -------------------------------------------------------------------------


def test_the_command_waits_for_the_file_of_a_scheduler(client, files, capsys):
    command, file = CommandLine(capsys), Path("s.json")
    file.touch()
    told = json.dumps({"address": client.scheduler.address})
    writer = Timer(0.5, file.write_text, (told,))
    writer.start()
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--scheduler-file", file)
    code, out, err = command(*product)
    assert (code, err.count("\n"), "GFLOP/s" in out) == (0, 1, True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    writer.join()
    before = contents(Path())
    with local_workers(0, processes=False) as alone:
        to = ("--scheduler", alone.scheduler.address, "--timeout", "0.3")
        product = ("gemm", "A.zarr", "B.npy", "-o", "D.npy", *to)
        command.assert_refuses(*product, why="no-workers")
    assert contents(Path()) == before


@pytest.mark.parametrize(("flags", "scheme"), [((), "tls"), (("--insecure",), "tcp")])
def test_workers_of_a_command_are_closed(files, monkeypatch, capsys, flags, scheme):
    from twom_dist import jobs

    seen, compute = [], jobs.compute

    def look(run, client, *others):
        seen.extend(client.nthreads())
        return compute(run, client, *others)

    monkeypatch.setattr(jobs, "compute", look)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy", "--n-workers", "1")
    # What a worker is ready for first.
    fast = ("--engine", "reference", "--num-moduli", "16", "--chunks", "64")
    code, _, err = CommandLine(capsys)(*product, *fast, *flags)
    assert (code, err) == (0, "twom-dist: begins on 1 worker, 4 tiles to compute\n")
    assert [address.partition("://")[0] for address in seen] == [scheme]
