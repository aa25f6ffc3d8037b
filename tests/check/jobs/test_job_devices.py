"""The GPUs of the workers: the engine of a job, and the memory that is planned with."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from zict import LRU

from tests.support.cases import cases
from tests.support.command import contents
from tests.support.expect import raises
from twom_dist.cluster import local
from twom_dist.cluster.nvml import Gpu, Gpus
from twom_dist.errors import EngineUnavailableError
from twom_dist.jobs import gpus as jobs_devices
from twom_dist.jobs.gpus import budget_for_devices, choose_engine, find_device
from twom_dist.plan import Cluster
from twom_dist.plan.memory import MemoryBudget
from twom_dist.run import devices
from twom_dist.run.devices import WorkerDevice

GIB, MIB = 2**30, 2**20
NONE = WorkerDevice(reason="CUDA finds no device")
ONE, OTHER = (WorkerDevice(f"node GPU-{i}", free_bytes=GIB) for i in (1, 2))
TWO_GPUS = Gpus((Gpu("H200", 0, 0),) * 2, (13, 0))


@pytest.fixture
def with_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))


# --- the engine -----------------------------------------------------------------------


@cases(
    ("engine", "told", "chosen"),
    [
        ("auto", [ONE, OTHER], "cuda"),
        ("auto", [NONE, NONE], "cpu"),
        ("auto", [], "cpu"),
        # Started for the cores of a machine that has a GPU.
        ("auto", [ONE, ONE], "cpu"),
        ("cuda", [ONE, ONE], "cuda"),
        ("reference", [], "reference"),
    ],
)
def test_the_engine_follows_the_workers(with_cupy, engine, told, chosen):
    by_address = {f"tcp://{i}": x for i, x in enumerate(told)}
    assert choose_engine(engine, by_address) == chosen


@cases(
    ("engine", "told", "code"),
    [
        ("cuda", {"1": NONE, "2": NONE}, "no-gpu"),
        ("cuda", {}, "no-gpu"),
        ("auto", {"1": ONE, "2": NONE}, "gpu-missing"),
        ("auto", {"1": ONE, "2": ONE, "3": OTHER}, "gpu-missing"),
    ],
)
def test_what_no_worker_or_not_every_one_has_is_refused(with_cupy, engine, told, code):
    with raises(EngineUnavailableError, code):
        choose_engine(engine, told)


def test_a_client_needs_cupy_as_well(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with raises(EngineUnavailableError, "no-cupy"):
        choose_engine("auto", {"1": ONE})


# --- what a worker tells --------------------------------------------------------------


@pytest.fixture
def cupy(monkeypatch):
    """CuPy on a device whose memory is known."""
    cupy = MagicMock()
    cupy.cuda.Device().pci_bus_id = "0000:1B:00.0"
    cupy.cuda.runtime.memGetInfo.return_value = (40 * GIB, 80 * GIB)
    pool = cupy.get_default_memory_pool()
    for name, size in (("total_bytes", 4), ("used_bytes", 1), ("get_limit", 0)):
        getattr(pool, name).return_value = size * GIB
    cupy.ndarray = np.ndarray
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(jobs_devices, "find_gpus", lambda: TWO_GPUS)
    monkeypatch.setattr(devices, "get_engine", lambda name: None)
    return cupy


def test_a_worker_tells_its_device_and_what_is_free(cupy):
    found = find_device()
    assert "0000:1B:00.0" in found.name
    assert (found.free_bytes, found.own_bytes) == (40 * GIB, 4 * GIB)
    assert found.held_bytes == GIB
    assert found.most_bytes is None
    assert find_device(SimpleNamespace(data={})).most_bytes is None
    buffer = SimpleNamespace(n=720 * MIB)
    for data in (buffer, SimpleNamespace(n=GIB, device_buffer=buffer)):
        assert find_device(SimpleNamespace(data=data)).most_bytes == 1000 * MIB
    cupy.get_default_memory_pool().get_limit.return_value = 16 * GIB
    assert find_device().most_bytes == 16 * GIB


@pytest.fixture
def rmm(cupy, monkeypatch):
    """CuPy that allocates from RMM."""
    cupy.cuda.get_allocator().__module__ = "rmm.allocators.cupy"
    monkeypatch.setitem(sys.modules, "rmm", rmm := MagicMock())
    rmm.mr.get_current_device_resource().pool_size = lambda: 30 * GIB
    return rmm


def test_the_pool_of_rmm_counts_where_cupy_uses_it(rmm):
    pool = SimpleNamespace(pool_size=lambda: 30 * GIB)
    counting = SimpleNamespace(upstream_mr=pool)
    for resource, expected in ((pool, 30), (counting, 30), (SimpleNamespace(), 0)):
        rmm.mr.get_current_device_resource.return_value = resource
        assert find_device().own_bytes == expected * GIB


def test_persisted_blocks_in_the_pool_of_rmm_are_no_free_memory(rmm):
    block = np.empty(MIB, np.uint8)
    # Under the key of an input and of what was scaled by nothing.
    blocks = {"x": block, "scaled": block, "y": np.empty(2 * MIB, np.uint8), "z": 1}
    lru = LRU(MIB, {})
    lru.d.update(blocks)
    spilling = SimpleNamespace(device_buffer=SimpleNamespace(fast=lru, n=720 * MIB))
    for data in (blocks, SimpleNamespace(fast=lru), spilling):
        found = find_device(SimpleNamespace(data=data))
        assert (found.own_bytes, found.held_bytes) == (30 * GIB, 3 * MIB)
    assert find_device().held_bytes == 0


def test_a_worker_without_a_device_for_the_engine_says_why(cupy, monkeypatch):
    def refuse(name):
        raise EngineUnavailableError("T4 is\ntoo old", "Multiply NumPy arrays")

    monkeypatch.setattr(devices, "get_engine", refuse)
    assert find_device() == WorkerDevice(reason="T4 is too old")
    # Where there is none, CuPy is not loaded.
    monkeypatch.setitem(sys.modules, "cupy", None)
    none = Gpus(reason="NVML counts no GPU")
    monkeypatch.setattr(jobs_devices, "find_gpus", lambda: none)
    assert find_device() == WorkerDevice(reason="NVML counts no GPU")


# --- the memory -----------------------------------------------------------------------


@cases(
    ("told", "room"),
    [
        ([OTHER], GIB),
        (4 * [WorkerDevice("x", free_bytes=8 * GIB, own_bytes=GIB)], 3 * GIB),
        ([WorkerDevice("x", free_bytes=8 * GIB, most_bytes=5 * GIB)], 5 * GIB),
        # What is planned with and what arrays hold are together 0.8 of all.
        ([WorkerDevice("x", own_bytes=8 * GIB, held_bytes=int(0.8 * GIB))], 7 * GIB),
        ([WorkerDevice("x", own_bytes=GIB, held_bytes=GIB)], 1),
        ([WorkerDevice("x")], 1),
        # The fullest counts.
        ([ONE, ONE, OTHER], GIB // 2),
    ],
)
def test_there_is_room_for_what_devices_have_left_and_not_hosts(told, room):
    cluster = Cluster(len(told), 1, MemoryBudget(16 * MIB))
    found = budget_for_devices(cluster, dict(enumerate(told))).memory
    assert (found.kind, found.limit) == ("device", pytest.approx(room, abs=1))


# --- the command ----------------------------------------------------------------------


def test_the_command_refuses_cuda_where_there_is_no_gpu(call, a, b, monkeypatch):
    for module in (jobs_devices, local):
        monkeypatch.setattr(module, "find_gpus", lambda: Gpus(reason="there is none"))
    before = contents(Path())
    for flags in ((), ("--n-workers", "0"), ("--n-workers", "2")):
        product = ("gemm", "A.npy", "B.npy", "-o", "C.npy", "--engine", "cuda", *flags)
        call.assert_refuses(*product, why="no-gpu")
        assert contents(Path()) == before
