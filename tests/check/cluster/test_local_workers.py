"""How many workers `local_cluster` chooses, and what is logged as they close."""

import logging
from types import SimpleNamespace

import pytest
from distributed.client import AllExit

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.cluster import closing, local, nvml
from twom_dist.errors import ArgumentError, MemoryLimitError, PlanError

GIB = 2**30
TWO_GPUS = nvml.Gpus((nvml.Gpu("A", 0, 0),) * 2, (13, 0))


@cases(
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
        # Each GPU has one.
        (32, 64, {"gpus": TWO_GPUS}, (2, 2)),
        (32, 64, {"gpus": TWO_GPUS, "n_workers": 1}, (1, 2)),
    ],
)
def test_cores_and_memory_are_shared_out(cores, gib, given, expected):
    memory = int(gib * GIB)
    found = local.choose_workers(**given, cores=cores, memory_bytes=memory)
    assert (found.workers, found.threads) == expected
    assert found.memory.limit == memory // expected[0]


@cases(
    ("limit", "workers", "memory"),
    [(0, 4, None), ("1 GiB", 4, GIB), (0.5, 2, 4 * GIB), ("auto", 4, 2 * GIB)],
)
def test_a_memory_limit_leaves_room_for_so_many(limit, workers, memory):
    machine = {"cores": 4, "memory_bytes": 8 * GIB}
    found = local.choose_workers(memory_limit=limit, **machine)
    assert (found.workers, found.memory.limit) == (workers, memory)
    # A number that is given counts on its limits not being reached.
    assert local.choose_workers(3, memory_limit=limit, **machine).workers == 3


def test_what_is_given_and_does_not_fit_is_refused():
    least = local.LEAST_BYTES
    machine = {"cores": 4, "memory_bytes": 8 * least}
    assert local.choose_workers(8, **machine).workers == 8
    assert local.choose_workers(1, memory_limit=least, **machine)
    gpus, small = {"gpus": TWO_GPUS}, {"n_workers": 1}
    for error, code, options in (
        (PlanError, "too-many-workers", {"n_workers": 9}),
        (PlanError, "too-many-workers", {"n_workers": 3} | gpus),
        (PlanError, "not-positive", {"n_workers": 0}),
        (PlanError, "not-positive", {"n_workers": 2.5}),
        (PlanError, "not-positive", {"threads_per_worker": -1}),
        (MemoryLimitError, "memory", small | {"memory_limit": "300 MiB"}),
        (MemoryLimitError, "memory", small | {"memory_limit": least - 1}),
        (MemoryLimitError, "memory", small | {"memory_limit": 0.05}),
        (PlanError, "memory-limit", {"memory_limit": "much"}),
        (PlanError, "memory-limit", {"memory_limit": float("nan")}),
        (PlanError, "memory-limit", {"memory_limit": float("inf")}),
        (PlanError, "memory-limit", {"memory_limit": [1]}),
    ):
        with raises(error, code):
            local.choose_workers(**options, **machine)
    for name in ("workers", "memory", "asynchronous"):
        with raises(ArgumentError, "unknown-option"):
            td.local_cluster(gpus=False, **{name: 2})


# --- what is logged as they close -----------------------------------------------------


@pytest.fixture
def logger():
    """Yield the logger of workers, without the filters of a test."""
    names = ("distributed.worker", "distributed.worker.state_machine")
    loggers = [logging.getLogger(name) for name in names]
    kept = [[*each.filters] for each in loggers]
    yield loggers[1]
    for each, filters in zip(loggers, kept, strict=True):
        each.filters[:] = filters


def passes(logger, error=None):
    told = None if error is None else (type(error), error, None)
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "x", (), told)
    return bool(logger.filter(record))


def test_a_worker_is_silent_while_it_closes_alone(logger):
    worker = SimpleNamespace(status=SimpleNamespace(name="closing"), nanny=None)
    # A filter would outlive a worker of this process.
    closing.QuietEnd().setup(worker)
    assert passes(logger)
    worker.nanny = "tls://127.0.0.1:1"
    closing.QuietEnd().setup(worker)
    assert not passes(logger)
    worker.status.name = "running"
    assert passes(logger)


def test_the_client_says_nothing_of_what_its_closing_cuts_short():
    nanny, loop = (logging.getLogger(x) for x in ("distributed.nanny", "asyncio"))
    with closing.quiet_end():
        assert not passes(nanny)
        assert not passes(loop, AllExit())
        assert passes(loop, ValueError())
    assert passes(nanny)
    assert passes(loop, AllExit())
