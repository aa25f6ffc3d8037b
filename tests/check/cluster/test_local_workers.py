"""How many workers `local_cluster` chooses, and what it refuses."""

import pytest

import twom_dist as td
from tests.support.expect import raises
from twom_dist.cluster.local import LEAST_BYTES, choose_workers
from twom_dist.cluster.nvml import Gpu, Gpus
from twom_dist.errors import ArgumentError, MemoryLimitError, PlanError

GIB = 2**30
TWO_GPUS = Gpus((Gpu("A", 0, 0),) * 2, (13, 0))


@pytest.mark.parametrize(
    ("cores", "gib", "given", "expected"),
    [
        (32, 64, {}, (8, 4)),
        (32, 64, {"n_workers": 5}, (5, 6)),
        (32, 64, {"n_workers": 64}, (64, 1)),
        (32, 64, {"threads_per_worker": 8}, (4, 8)),
        (32, 64, {"n_workers": 3, "threads_per_worker": 1}, (3, 1)),
        # Clamped to the memory, never refused.
        (64, 16, {}, (8, 8)),
        (64, 2, {}, (4, 16)),
        (64, 0.1, {}, (1, 64)),
    ],
)
def test_cores_and_memory_are_shared_out(cores, gib, given, expected):
    memory = int(gib * GIB)
    found = choose_workers(**given, cores=cores, memory_bytes=memory)
    assert (found.workers, found.threads) == expected
    assert found.memory.limit == memory // expected[0]


@pytest.mark.parametrize(
    ("limit", "workers", "memory"),
    [(0, 4, None), ("1 GiB", 4, GIB), (0.5, 2, 4 * GIB), ("auto", 4, 2 * GIB)],
)
def test_a_memory_limit_leaves_room_for_so_many(limit, workers, memory):
    machine = {"cores": 4, "memory_bytes": 8 * GIB}
    found = choose_workers(memory_limit=limit, **machine)
    assert (found.workers, found.memory.limit) == (workers, memory)
    # A number that is given counts on its limits not being reached.
    assert choose_workers(3, memory_limit=limit, **machine).workers == 3


def test_each_gpu_has_one_worker():
    machine = {"cores": 32, "memory_bytes": 64 * GIB, "gpus": TWO_GPUS}
    found = choose_workers(**machine)
    assert (found.workers, found.threads, found.memory.limit) == (2, 2, 32 * GIB)
    assert choose_workers(1, **machine).workers == 1
    with raises(PlanError, "too-many-workers"):
        choose_workers(3, **machine)


def test_what_is_given_and_does_not_fit_is_refused():
    machine = {"cores": 4, "memory_bytes": 8 * LEAST_BYTES}
    assert choose_workers(8, **machine).workers == 8
    with raises(PlanError, "too-many-workers"):
        choose_workers(9, **machine)
    for given in ({"n_workers": 0}, {"threads_per_worker": -1}, {"n_workers": 2.5}):
        with raises(PlanError, "not-positive"):
            choose_workers(**given, **machine)
    for limit in ("300 MiB", LEAST_BYTES - 1, 0.05):
        with raises(MemoryLimitError, "memory"):
            choose_workers(1, memory_limit=limit, **machine)
    assert choose_workers(1, memory_limit=LEAST_BYTES, **machine)
    for limit in ("much", float("nan"), float("inf"), [1]):
        with raises(PlanError, "memory-limit"):
            choose_workers(memory_limit=limit, **machine)
    for name in ("workers", "memory", "asynchronous"):
        with raises(ArgumentError, "unknown-option"):
            td.local_cluster(gpus=False, **{name: 2})
