"""The GPUs of the workers: the engine of a job, and the memory that is planned with."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.cases import cases
from tests.support.command import contents
from tests.support.expect import raises
from twom_dist.errors import EngineUnavailableError
from twom_dist.jobs.resources import budget_for_devices, choose_engine
from twom_dist.plan import Cluster
from twom_dist.workers.devices import WorkerDevice

GIB = 2**30
NONE = WorkerDevice(reason="CUDA finds no device")
ONE, OTHER = (WorkerDevice(f"node GPU-{i}", free_bytes=GIB) for i in (1, 2))


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
        ("cuda", [NONE, NONE], "no-gpu"),
        ("cuda", [], "no-gpu"),
        ("auto", [ONE, NONE], "gpu-missing"),
        ("auto", [ONE, ONE, OTHER], "gpu-missing"),
    ],
)
def test_the_engine_follows_the_workers(engine, told, chosen):
    by_address = dict(zip("abc", told, strict=False))
    # A client needs CuPy as well.
    code = "no-cupy" if chosen == "cuda" and find_spec("cupy") is None else chosen
    if code in ("cuda", "cpu", "reference"):
        assert choose_engine(engine, by_address) == code
    else:
        with raises(EngineUnavailableError, code):
            choose_engine(engine, by_address)


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
    found = budget_for_devices(Cluster(len(told)), dict(enumerate(told))).memory
    assert (found.kind, found.limit) == ("device", pytest.approx(room, abs=1))


@pytest.mark.parametrize("flags", [(), ("--n-workers", "0"), ("--n-workers", "2")])
def test_the_command_refuses_cuda_where_there_is_no_gpu(call, a, b, monkeypatch, flags):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before = contents(Path())
    product = ("gemm", "A.npy", "B.npy", "-o", "C.npy", "--engine", "cuda", *flags)
    call.assert_refuses(*product, why="no-gpu")
    assert contents(Path()) == before
