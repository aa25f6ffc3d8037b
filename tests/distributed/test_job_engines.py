"""Jobs on devices that are not here: which blocks are moved, where, and what is left.

An engine of the host stands for the CUDA engine, and copies for those to a device.
"""

import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.command import CommandLine, contents, make, read, same_bits
from tests.expect import raises
from tests.jobs import K, N, multiply, stop_after
from twom_dist.cli import workers
from twom_dist.cluster.local import Machine
from twom_dist.cluster.nvml import Gpu, Gpus
from twom_dist.errors import EngineUnavailableError
from twom_dist.jobs import arrays, devices, multiply_files, update_files
from twom_dist.jobs.devices import Device
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
    return Device(str(dask_worker and dask_worker.address), free_bytes=GIB)


@pytest.fixture(scope="module")
def client():
    options = {"threads_per_worker": 1, "processes": False, "memory_limit": 0}
    with (
        LocalCluster(
            n_workers=2, dashboard_address="127.0.0.1:0", **options
        ) as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture
def moves(monkeypatch):
    """The device, with what is moved to it and back."""
    made = Moves()
    monkeypatch.setattr(arrays, "convert", made.convert)
    monkeypatch.setattr(devices, "find_device", tell_device)
    monkeypatch.setattr("twom_dist.kernels.cuda.engine.make_engine", CpuEngine)
    get_engine.cache_clear()
    yield made
    get_engine.cache_clear()


# Tiles of A, B and C.
READ, WRITTEN = 5 * 4 + 4 * 6, 5 * 6


@pytest.mark.parametrize("alone", [False, True])
def test_every_tile_is_moved_once_and_brought_back(client, files, moves, alone):
    """By workers with a device each, and by threads that share one."""
    output, engine = ("C.zarr", "auto") if alone else ("C.npz", "cuda")
    summary = multiply(output, client=None if alone else client, engine=engine)
    assert (summary.engine, summary.waves) == ("cuda", 1)
    assert "2m with 16 moduli, cuda, " in str(summary)
    assert same_bits(read(output), td.gemm(*files[:2]))
    assert moves.counts == {"cupy": READ, "numpy": WRITTEN}
    assert threading.current_thread().name not in moves.threads


def test_c_and_other_dtypes_are_moved_too_in_waves(client, files, moves, monkeypatch):
    def tell_small(dask_worker=None):
        return Device(str(dask_worker.address), free_bytes=2**18)

    monkeypatch.setattr(devices, "find_device", tell_small)
    # Blocks of the host stand for those of the device.
    monkeypatch.setattr(blocks, "check_kind", lambda block, *_: block)
    np.save("R.npy", make(K, N, 5, "f4"))
    options = {"beta": 0.5j, "c": "C0.h5", "client": client, "tile": 16}
    summary = multiply_files("A.zarr", "R.npy", "C.zarr", **options)
    expected = td.gemm(files[0], np.load("R.npy"), files[2], beta=0.5j)
    assert same_bits(read("C.zarr"), expected)
    assert summary.waves > 1
    assert moves.counts["cupy"] >= READ + WRITTEN
    assert moves.counts["numpy"] == WRITTEN


@pytest.mark.parametrize(
    ("routine", "uplo", "output"),
    [("herk", "full", "C.zarr"), ("syr2k", "lower", "C.npz")],
)
def test_updates(client, files, moves, routine, uplo, output):
    two = ("A.zarr",) if routine == "syr2k" else ()
    options = {"client": client, "tile": 16, "uplo": uplo}
    summary = update_files(routine, "A.zarr", output, *two, **options)
    matrices = [files[0]] * (1 + len(two))
    assert same_bits(read(output), getattr(td, routine)(*matrices, uplo=uplo))
    assert summary.engine == "cuda"
    assert moves.counts["cupy"] == 5 * 4


def test_workers_that_share_a_device_multiply_on_it_if_asked(
    client, files, moves, monkeypatch
):
    def tell_one(dask_worker=None):
        return Device("the same", free_bytes=GIB)

    monkeypatch.setattr(devices, "find_device", tell_one)
    assert multiply(client=client).engine == "cpu"
    assert moves.counts["cupy"] == 0
    summary = multiply(client=client, engine="cuda", overwrite=True)
    assert summary.engine == "cuda"


def test_cuda_without_gpus_is_refused_before_anything_is_there(
    client, files, capsys, monkeypatch
):
    monkeypatch.setattr(devices, "find_device", lambda *_: Device(reason="none here"))
    before = contents(Path())
    for chosen in (client, None):
        with raises(EngineUnavailableError, "no-gpu") as caught:
            multiply(client=chosen, engine="cuda")
        assert "none here" in caught.value.problem
    flags = ("--engine", "cuda", "--scheduler", client.scheduler.address)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", *flags)
    CommandLine(capsys).assert_refuses(*product, why="no-gpu")
    assert contents(Path()) == before


def test_a_job_goes_on_with_the_other_engine(client, files, moves):
    stop_after(7, lambda **k: multiply(client=client, engine="cpu", **k))
    summary = multiply(client=client)
    assert (summary.engine, summary.resumed >= 7) == ("cuda", True)
    assert moves.counts["numpy"] >= WRITTEN - summary.resumed
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


def test_the_command_starts_a_worker_for_each_gpu(
    client, files, moves, monkeypatch, capsys
):
    calls = []

    @contextmanager
    def local_cluster(**options):
        calls.append(options)
        with client.as_current():
            yield client

    machine = Machine(32, 64 * GIB, Gpus((Gpu("H200", 0, 0),) * 2, (13, 0)))
    monkeypatch.setattr(workers, "find_machine", lambda *_: machine)
    monkeypatch.setattr(workers, "local_cluster", local_cluster)
    flags = ("-o", "C.zarr", "--tile", "16", "--memory-limit", "3GiB")
    code, out, err = CommandLine(capsys)("gemm", "A.zarr", "B.npy", *flags)
    assert (code, err) == (0, "")
    assert "moduli, cuda, " in out
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    (asked,) = calls
    expected = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 3 * GIB}
    expected |= {"gpus": True, "dashboard": False, "security": None}
    assert expected.items() <= asked.items()
