"""What `local_cluster` refuses before it starts a process."""

import pytest

import twom_dist as td
from tests.expect import raises
from twom_dist.cluster.local import LEAST_BYTES, Machine, choose_workers
from twom_dist.errors import ArgumentError, MemoryLimitError, PlanError

GIB = 2**30


@pytest.mark.parametrize("limit", ["300 MiB", LEAST_BYTES - 1, 0.05])
def test_a_memory_limit_without_room_for_a_tile_is_refused(limit):
    with raises(MemoryLimitError, "memory"):
        choose_workers(Machine(4, 8 * GIB), 1, memory_limit=limit)
    assert choose_workers(Machine(4, 8 * GIB), 1, memory_limit=LEAST_BYTES)


@pytest.mark.parametrize("limit", ["much", float("nan"), float("inf"), [1]])
def test_what_is_not_a_memory_limit_is_refused(limit):
    with raises(PlanError, "memory-limit"):
        choose_workers(Machine(4, 8 * GIB), memory_limit=limit)


@pytest.mark.parametrize("name", ["workers", "memory", "asynchronous"])
def test_an_option_that_nobody_takes_is_refused(name):
    with raises(ArgumentError, "unknown-option") as caught:
        td.local_cluster(gpus=False, **{name: 2})
    assert "n_workers" in str(caught.value)
