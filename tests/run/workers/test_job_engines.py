"""Jobs on devices that are not here: which blocks are moved, where, and what is left.

An engine of the host stands for the CUDA engine, and copies for those to a device.
"""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import CommandLine, make, read
from tests.support.jobs import K, N, local_workers, multiply
from twom_dist.cli import workers
from twom_dist.jobs import gpus, reading, tiles
from twom_dist.jobs.gpus import WorkerDevice
from twom_dist.kernels.cpu.engine import CpuEngine
from twom_dist.kernels.registry import get_engine
from twom_dist.tiles import blocks

pytest.importorskip("cupy")

GIB = 2**30


class Moves:
    """Counts the blocks that are moved, and keeps the threads that do it."""

    def __init__(self):
        self.counts = {"cupy": 0, "numpy": 0}
        self.threads = set()
        self._lock = threading.Lock()

    def convert(self, block, family):
        with self._lock:
            self.counts[family] += 1
            self.threads.add(threading.current_thread().name)
        return np.array(block)


def tell_device(dask_worker=None, measure=True):
    """Every worker has a device of its own."""
    return WorkerDevice(str(dask_worker and dask_worker.address), free_bytes=GIB)


@pytest.fixture(scope="module")
def client():
    with local_workers(2, processes=False, memory_limit=0) as made:
        yield made


@pytest.fixture
def moves(monkeypatch):
    """The device, with what is moved to it and back."""
    made = Moves()
    monkeypatch.setattr(reading, "convert", made.convert)
    monkeypatch.setattr(tiles, "bring_to_host", lambda x: made.convert(x, "numpy"))
    monkeypatch.setattr(gpus, "find_device", tell_device)
    monkeypatch.setattr("twom_dist.kernels.cuda.engine.make_engine", CpuEngine)
    get_engine.cache_clear()
    yield made
    get_engine.cache_clear()


# Tiles of A, B and C.
READ, WRITTEN = 5 * 2 + 2 * 6, 5 * 6


@pytest.mark.parametrize("alone", [False, True])
def test_every_tile_is_moved_once_and_brought_back(client, files, moves, alone):
    """By workers with a device each, and by threads that share one."""
    output, engine = ("C.zarr", "auto") if alone else ("C.npz", "cuda")
    options = {"engine": engine, "num_moduli": 16}
    summary = multiply(output, client=None if alone else client, **options)
    assert (summary.engine, summary.waves) == ("cuda", 1)
    assert "2m with 16 moduli, cuda, " in str(summary)
    assert same_bits(read(output), td.gemm(*files[:2], num_moduli=16))
    assert moves.counts == {"cupy": READ, "numpy": WRITTEN}
    assert threading.current_thread().name not in moves.threads


def test_c_and_other_dtypes_are_moved_too_in_waves(client, files, moves, monkeypatch):
    def tell_small(dask_worker=None):
        return WorkerDevice(str(dask_worker.address), free_bytes=2**18)

    monkeypatch.setattr(gpus, "find_device", tell_small)
    # Blocks of the host stand for those of the device.
    monkeypatch.setattr(blocks, "check_kind", lambda block, *_: block)
    np.save("R.npy", make(K, N, 5, "f4"))
    given = {"beta": 0.5j, "num_moduli": 16}
    options = {"c": "C0.h5", "client": client, "chunks": 16, **given}
    summary = td.multiply_files("A.zarr", "R.npy", "C.zarr", **options)
    expected = td.gemm(files[0], np.load("R.npy"), files[2], **given)
    assert same_bits(read("C.zarr"), expected)
    assert summary.waves > 1
    assert moves.counts["cupy"] >= READ + WRITTEN
    assert moves.counts["numpy"] == WRITTEN


ENGINES = [("auto", None), ("cuda", True), ("cpu", False)]


@pytest.mark.parametrize(("engine", "gpus"), ENGINES)
def test_the_command_starts_the_workers_that_an_engine_needs(
    client, files, moves, monkeypatch, capsys, engine, gpus
):
    asked = {}

    @contextmanager
    def local_cluster(**options):
        asked.update(options)
        with client.as_current():
            yield client

    monkeypatch.setattr(workers, "local_cluster", local_cluster)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--engine", engine)
    code, out, err = CommandLine(capsys)(*product)
    used = "cpu" if engine == "cpu" else "cuda"
    begun = "twom-dist: begins on 2 workers, 1 tile to compute\n"
    assert (code, err, f"moduli, {used}, " in out) == (0, begun, True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert {"n_workers": None, "gpus": gpus, "security": None}.items() <= asked.items()
