"""Lazy products without a client: the memory of this machine is the limit."""

from contextlib import contextmanager

import dask.array as da
import pytest

import twom_dist as td
from tests.support.advice import memory_for
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.machine import a_machine
from tests.support.strategies import random_matrix
from twom_dist.errors import MemoryLimitError, MemoryWarning
from twom_dist.workers import client
from twom_dist.workers.machine import group_limits, read_clocks


@contextmanager
def a_cluster(*answers):
    """Have a scheduler answer with the memory of its workers, or not at all."""
    about = {"address": "tcp://h:1", "host": "h", "nthreads": 1}
    told = [x and [{**about, "memory_limit": y} for y in x] for x in answers]
    stand_in = type("Client", (), {"asynchronous": False})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "current_client", lambda: stand_in)
        patch.setattr(client, "ask_scheduler", lambda *_: told.pop(0))
        yield


def test_without_a_client_this_machine_is_the_limit():
    size = memory_for(2**23, "machine")
    x = da.ones((200, 4000), chunks=(100, 200), dtype=complex)
    with a_machine(memory=size):
        plan = td.plan(td.herk, x)
        assert plan.streams
        assert plan.cluster.memory.limit == size
        for refused in (x.persist(scheduler="sync"), da.ones((2000, 2000), chunks=-1)):
            with raises(MemoryLimitError, "memory") as caught:
                td.herk(refused)
            limit = memory_for(caught.value.needed, "machine")
            assert f"at least {limit >> 20} MiB" in caught.value.remedy
    # Small products run on small machines.
    with a_machine(memory=300 << 20):
        x = da.ones((64, 64), chunks=32)
        assert td.gemm(x, x).compute(scheduler="sync")[0, 0] == 64


def test_a_system_that_tells_no_idle_time_has_no_other_programs(tmp_path):
    now, busy = read_clocks(tmp_path / "uptime")
    assert now > 0
    assert busy == 0


def test_a_result_that_can_only_leave_is_made_with_a_warning():
    a, b = (random_matrix(200, 20, seed=s) for s in (1, 2))
    lazy = [da.from_array(x, chunks=20).map_blocks(lambda t: t + 0) for x in (a, b)]
    with (
        a_machine(memory=memory_for(400_000, "machine")),
        pytest.warns(MemoryWarning, match="this machine cannot hold all of") as told,
    ):
        product = td.gemm(*lazy, op_b="C")
    assert told[0].filename == __file__
    assert same_bits(product.compute(scheduler="sync"), td.gemm(a, b, op_b="C"))


@cases(
    ("limits", "smallest"),
    [([4 << 30, 0, 2 << 30], 2 << 30), ([1 << 30, 0], 1 << 30), ([0, 0], None)],
)
def test_the_smallest_worker_counts_and_the_last_answer(limits, smallest):
    """A scheduler that is busy for a moment has not lost its workers."""
    with a_cluster(limits, None):
        for _ in range(2):
            found = td.plan(td.gemm, da.ones((4, 4)), da.ones((4, 4))).cluster
            assert (found.workers, found.memory.limit) == (len(limits), smallest)


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
