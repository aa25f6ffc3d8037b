"""Lazy products without a client: the memory of this machine is the limit."""

import dask.array as da
import pytest

import twom_dist as td
from tests.support.expect import raises
from twom_dist.errors import MemoryLimitError, MemoryWarning
from twom_dist.plan.memory import MemoryBudget
from twom_dist.run import client
from twom_dist.run.machine import group_limits


def test_without_a_client_this_machine_is_the_limit(monkeypatch):
    size = MemoryBudget(kind="machine").least_limit(2**23)
    monkeypatch.setattr(client, "machine_memory", lambda: size)
    x = da.ones((200, 4000), chunks=(100, 200), dtype=complex)
    plan = td.plan(td.herk, x)
    assert plan.streams
    assert plan.cluster.memory.limit == size
    assert not any(str(key).startswith("('ones") for key in td.herk(x).dask)
    for refused in (x.persist(scheduler="sync"), da.ones((2000, 2000), chunks=2000)):
        with raises(MemoryLimitError, "memory") as caught:
            td.herk(refused)
        assert "this machine" in caught.value.problem
        assert "dask" not in caught.value.problem
        limit = MemoryBudget(kind="machine").least_limit(caught.value.needed)
        assert f"at least {limit >> 20} MiB" in caught.value.remedy
        assert MemoryBudget(limit, "machine").tile_bytes >= caught.value.needed
    with pytest.warns(MemoryWarning, match="this machine cannot hold all of"):
        td.gemm(da.ones((2000, 50), chunks=50), da.ones((50, 2000), chunks=50))
    # Small products run on small machines.
    monkeypatch.setattr(client, "machine_memory", lambda: 300 << 20)
    x = da.ones((64, 64), chunks=32)
    assert td.gemm(x, x).compute(scheduler="sync")[0, 0] == 64


def test_the_narrowest_group_is_the_limit(tmp_path):
    groups, mounted = tmp_path / "cgroup", tmp_path / "mounted"
    assert not list(group_limits(groups, mounted))
    groups.write_text("4:cpu:/x\n3:memory,x:/slurm/job:1\n0::/slurm/job/step\n")
    for name, text in {
        "slurm/job/step/memory.max": "max",
        "slurm/job/memory.max": "3000",
        "slurm/memory.max": "5000",
        "memory/memory.limit_in_bytes": "4000",
        "memory.limit_in_bytes": "1",
    }.items():
        path = mounted / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert sorted(group_limits(groups, mounted)) == [3000, 4000, 5000]
    groups.write_bytes(b"0::/slurm/job/\xff\n")
    assert [*group_limits(groups, mounted)] == [3000, 5000]


def test_the_smallest_worker_counts_and_the_last_answer(monkeypatch):
    """A scheduler that is busy for a moment has not lost its workers."""
    limits = 4 << 30, 0, 2 << 30
    about = {"address": "tcp://h:1", "nthreads": 1, "sees_gpu": False}
    told = [[{**about, "memory_limit": x} for x in limits], None]
    stand_in = type("Client", (), {"asynchronous": False})()
    monkeypatch.setattr(client, "current_client", lambda: stand_in)
    monkeypatch.setattr(client, "ask_scheduler", lambda *_: told.pop(0))
    for _ in range(2):
        found = client.current_cluster()
        assert (found.workers, found.memory.limit) == (3, 2 << 30)
