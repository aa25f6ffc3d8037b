"""Jobs on a cluster: the same bits from files, in waves, and through every accident."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import LocalCluster

import twom_dist as td
from tests.command import (
    CommandLine,
    contents,
    read,
    same_bits,
    save,
    save_operands,
)
from twom_dist.errors import MemoryLimitError, PlanError, StoreError
from twom_dist.jobs import Progress, lay_out, multiply_files, update_files
from twom_dist.jobs.writing import stop_writes, write_tile
from twom_dist.plan import Cluster
from twom_dist.store import create_matrix

ROOT = Path(__file__).resolve().parents[2]
M, K, N = 70, 50, 90
TILES = 5 * 6
OUTPUTS = ["C.zarr", "C.npy", "C.h5::g/C", "C.npz"]
GIB = 2**30


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 2 * GIB}
    with td.local_cluster(gpus=False, **options) as made:
        yield made


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A, B and C0 in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return save_operands(M, K, N)


def multiply(output, client, **options):
    options = {"tile": 16, **options}
    return multiply_files("A.zarr", "B.npy", output, client=client, **options)


def product_tasks(client):
    """Names of the tasks of products that the scheduler knows."""
    names = client.run_on_scheduler(
        lambda dask_scheduler: list(map(str, dask_scheduler.tasks))
    )
    return [name for name in names if "twom-" in name]


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


# --- the result ----------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_has_the_bits_of_gemm(client, files, output):
    seen: list[Progress] = []
    summary = multiply(output, client, progress=seen.append)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert [p.done for p in seen] == list(range(1, TILES + 1))
    assert {p.tiles for p in seen} == {TILES}
    assert seen[-1].operations == 8 * M * N * K
    assert (summary.shape, summary.tiles) == ((M, N, K), (5, 6, 4))
    assert (summary.method, summary.num_moduli, summary.waves) == ("2m", 16, 1)
    assert summary.gflops == pytest.approx(8 * M * N * K / summary.seconds / 1e9)
    assert sorted(os.listdir()) == sorted(
        ["A.zarr", "B.npy", "C0.h5", output.partition("::")[0]]
    )


@pytest.mark.parametrize("output", ["C.zarr", "C.h5"])
@pytest.mark.parametrize("local", [False, True])
def test_waves_give_the_same_bits(client, files, output, local, monkeypatch):
    a, b, c = files
    layouts = []

    def cut(*args, **kwargs):
        # A third of what the whole would take.
        for share in (2**20, 2**19, 2**18, 2**17):
            layouts.append(lay_out(*args[:2], Cluster(2, 1, share), **kwargs))
            if len(layouts[-1].waves) > 2:
                return layouts[-1]
        raise AssertionError

    monkeypatch.setattr("twom_dist.jobs.job.lay_out", cut)
    if local:
        monkeypatch.setattr("twom_dist.jobs.driver.current_client", lambda: None)
    scalars = {"alpha": 2 - 1j, "beta": 0.5j}
    chosen = None if local else client
    summary = multiply(output, chosen, c="C0.h5", **scalars)
    assert summary.waves > 2
    assert same_bits(read(output), td.gemm(a, b, c, **scalars))


@pytest.mark.parametrize(
    "options",
    [
        {"scaling": "accurate"},
        {"method": "native"},
        {"method": "hybrid", "accuracy": 1e-20},
        {"alpha": 0, "c": "C0.h5", "beta": 2},
    ],
)
def test_all_options_reach_the_workers(client, files, options):
    a, b, c = files
    multiply("C.zarr", client, **options)
    options.pop("c", None)
    expected = td.gemm(a, b, c if "beta" in options else None, **options)
    if options.get("method") == "native":
        np.testing.assert_allclose(read("C.zarr"), expected, rtol=1e-13)
    else:
        assert same_bits(read("C.zarr"), expected)


def test_transposed_inputs_of_one_file(client, files):
    multiply_files("A.zarr", "A.zarr", "C.npy", client=client, tile=20, op_a="C")
    assert same_bits(read("C.npy"), td.gemm(files[0], files[0], op_a="C"))


def test_the_current_client_computes(client, files):
    with client.as_current():
        assert multiply("C.zarr", None, tile=None).tiles == (1, 1, 1)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


# --- updates --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("routine", "uplo", "output"),
    [
        ("herk", "full", "C.zarr"),
        ("syrk", "lower", "C.npy"),
        ("her2k", "upper", "C.h5"),
        ("syr2k", "full", "C.npz"),
    ],
)
def test_updates_have_the_bits_of_the_routine(client, files, routine, uplo, output):
    a = files[0]
    save("A2.npy", 2 * a)
    other, matrices = (("A2.npy",), (a, 2 * a)) if "2k" in routine else ((), (a,))
    seen: list[Progress] = []
    options = {"client": client, "tile": 16, "uplo": uplo, "progress": seen.append}
    summary = update_files(routine, "A.zarr", output, *other, **options)
    assert same_bits(read(output), getattr(td, routine)(*matrices, uplo=uplo))
    assert [(p.done, p.tiles) for p in seen] == [(i, 15) for i in range(1, 16)]
    assert seen[-1].operations == (8 if other else 4) * M * M * K
    assert summary.gflops == pytest.approx(seen[-1].operations / summary.seconds / 1e9)


def test_waves_of_an_update(client, files, monkeypatch):
    def cut(*args, **kwargs):
        return lay_out(*args[:2], Cluster(2, 1, 2**17), **kwargs)

    monkeypatch.setattr("twom_dist.jobs.job.lay_out", cut)
    summary = update_files("herk", "A.zarr", "C.zarr", client=client, tile=10)
    assert summary.waves > 3
    assert same_bits(read("C.zarr"), td.herk(files[0]))


@pytest.mark.parametrize("output", ["C.zarr", "C.h5"])
def test_an_interrupted_update_leaves_nothing(client, files, output):
    def interrupt(progress):
        raise KeyboardInterrupt

    before = contents(Path())
    options = {"client": client, "tile": 16, "progress": interrupt}
    with pytest.raises(KeyboardInterrupt):
        update_files("herk", "A.zarr", output, **options)
    wait_until(lambda: not product_tasks(client))
    assert contents(Path()) == before


# --- layout ---------------------------------------------------------------------------


def test_waves_cover_every_tile_once_and_fit():
    shape, cluster = (40_000, 30_000, 20_000), Cluster(4, 2, 16 * GIB)
    layout = lay_out(shape, "c16", cluster)
    mt, nt, _ = layout.tiles
    covered = [
        (i, j)
        for wave in layout.waves
        for i in range(mt)[wave.rows]
        for j in range(nt)[wave.columns]
    ]
    assert sorted(covered) == [(i, j) for i in range(mt) for j in range(nt)]
    assert 1 < len(layout.waves) < 30
    assert all(wave.size >= 8 for wave in layout.waves[:1])
    assert len(lay_out(shape, "c16", Cluster(4, 2, None)).waves) == 1


def test_tiles_are_even_and_fit_the_worker_grid():
    layout = lay_out((3072, 3072, 3072), "c16", Cluster(4))
    assert layout.tile_shape == (768, 768, 1536)
    assert lay_out((3072, 3072, 3072), "c16", Cluster(2)).tiles == (3, 4, 2)
    assert lay_out((300, 500, 90_000), "c16", Cluster(2)).tiles == (2, 2, 88)
    assert lay_out((10, 0, 5), "c16", Cluster(2)).tiles == (1, 1, 1)


def test_what_fits_nowhere_is_refused():
    with pytest.raises(MemoryLimitError, match="the fullest needs"):
        lay_out((512, 512, 100_000), "c16", Cluster(2, 1, 2**20))
    with pytest.raises(MemoryLimitError, match="the fullest needs"):
        lay_out((4096,) * 3, "c16", Cluster(2, 1, GIB // 4), scaling="accurate")
    for tile in (0, 2.5, True):
        with pytest.raises(PlanError, match="a tile is an integer of 1 or more"):
            lay_out((8, 8, 8), "c16", Cluster(), tile=tile)


# --- tasks ----------------------------------------------------------------------------


def test_products_keep_their_keys_and_leave_nothing(client, files):
    seen = set()

    def look(progress):
        # "twom-product-<token>": dask has not fused them with what follows.
        for name in product_tasks(client):
            seen.add(name.strip("('").split("'")[0].rpartition("-")[0])

    multiply("C.zarr", client, progress=look)
    assert {"twom-product", "twom-write", "twom-exponents"} <= seen
    assert not any("-twom-" in name for name in seen)
    wait_until(lambda: not product_tasks(client))
    held = client.run(lambda dask_worker: len(dask_worker.data))
    assert set(held.values()) == {0}


def test_a_worker_that_dies_costs_time_alone(client, files):
    pids = client.run(os.getpid)

    def kill_once(progress):
        if progress.done == 3:
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    multiply("C.zarr", client, progress=kill_once)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    client.wait_for_workers(2, timeout=60)


@pytest.mark.parametrize("output", ["C.zarr", "C.npz"])
def test_an_error_of_a_worker_discards(client, files, output):
    chunk = Path("A.zarr/c/4/3")
    chunk.write_bytes(chunk.read_bytes()[:-1])
    save(output, np.eye(3))
    before = contents(Path())
    with pytest.raises(StoreError, match=r"A\.zarr' could not be read"):
        multiply(output, client, overwrite=True)
    assert contents(Path()) == before
    wait_until(lambda: not product_tasks(client))


@pytest.mark.parametrize("output", ["C.zarr", "C.npy", "C.h5"])
def test_an_interrupt_discards_and_nothing_comes_back(client, files, output):
    before = contents(Path())

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        multiply(output, client, progress=interrupt)
    wait_until(lambda: not product_tasks(client))
    assert contents(Path()) == before
    with client.as_current():
        multiply(output, client)
    assert same_bits(read(output), td.gemm(*files[:2]))


def test_a_write_that_comes_too_late_is_refused(tmp_path):
    writer = create_matrix(tmp_path / "C.zarr", (4, 4), "f8", (2, 2))
    write_tile(np.ones((2, 2)), writer, (0, 1))
    stop_writes(writer.draft.temporary)
    writer.discard()
    with pytest.raises(StoreError, match="is being discarded"):
        write_tile(np.ones((2, 2)), writer, (0, 0))
    assert list(tmp_path.iterdir()) == []


def test_an_asynchronous_client_is_refused(files):
    with pytest.raises(TypeError, match="an asynchronous client was given"):
        multiply("C.zarr", SimpleNamespace(asynchronous=True))


# --- the command ----------------------------------------------------------------------


def test_the_command_uses_a_scheduler(client, files, capsys):
    address = client.scheduler.address
    Path("dask.json").write_text(f'{{"address": "{address}"}}')
    call = CommandLine(capsys)
    for name, flags in {
        "C.zarr": ("--scheduler", address),
        "C.npz": ("--scheduler-file", "dask.json"),
    }.items():
        code, out, err = call("gemm", "A.zarr", "B.npy", "-o", name, *flags)
        assert (code, err) == (0, "")
        assert "GFLOP/s" in out
        assert same_bits(read(name), td.gemm(*files[:2]))


def test_a_scheduler_without_workers_is_refused(files, capsys):
    before = contents(Path())
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty:
        flags = ("--scheduler", empty.scheduler_address, "--timeout", "0.3")
        product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy")
        CommandLine(capsys).assert_refuses(*product, *flags, why="no-workers")
    assert contents(Path()) == before


def start_command(*flags):
    """Start a product that takes long, and wait until a part of it is written."""
    values = np.ones((192, 192))
    save("long.npy", values)
    slow = ("--engine", "reference", "--tile", "16")
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from twom_dist.cli import main; main()"),
            *("gemm", "long.npy", "long.npy", "-o", "C.zarr", *slow, *flags),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: list(Path().glob(".C.zarr.*.partial/c/*/*")), 60)
    return process


@pytest.mark.parametrize(
    ("flags", "number", "code", "word"),
    [
        (("--workers", "0"), signal.SIGTERM, 143, "terminated"),
        (("--workers", "1"), signal.SIGINT, 130, "interrupted"),
        (("--workers", "1", "--overwrite"), signal.SIGTERM, 143, "terminated"),
    ],
)
def test_an_ended_command_leaves_what_was_there(files, flags, number, code, word):
    if "--overwrite" in flags:
        save("C.zarr", np.eye(3))
    before = contents(Path())
    process = start_command(*flags)
    # As a terminal does it: to the workers as well.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.terminate()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err.startswith(f"twom-dist: error: {word}; ")
    assert err.count("\n") == 1
    left = contents(Path())
    del left["long.npy"]
    assert left == before


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_killed_command_leaves_nothing_plausible(files, workers):
    before = contents(Path())
    process = start_command("--workers", workers)
    process.kill()
    process.communicate(timeout=60)
    new = {Path(name).parts[0] for name in set(contents(Path())) - set(before)}
    (hidden,) = new - {"long.npy"}
    assert hidden.startswith(".C.zarr.")
    assert hidden.endswith(".partial")
    assert not list(Path().glob("*C.*zarr"))
