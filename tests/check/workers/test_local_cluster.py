"""What local_cluster chooses, and what it asks of dask and dask-cuda."""

import inspect
from tempfile import gettempdir

import pytest
from distributed import LocalCluster, Security

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.modules import recording_clusters, with_modules
from twom_dist.errors import (
    ArgumentError,
    EngineUnavailableError,
    MemoryLimitError,
    PlanError,
)
from twom_dist.workers import local

GIB = 2**30


@pytest.fixture(autouse=True)
def all_are_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


SHARES = [
    (32, 64, {}, (8, 4)),
    (32, 64, {"n_workers": 5}, (5, 6)),
    (32, 64, {"threads_per_worker": 8}, (4, 8)),
    (32, 64, {"n_workers": 3, "threads_per_worker": 1}, (3, 1)),
    # Clamped to the memory, never refused.
    (64, 2, {}, (4, 16)),
    (64, 0.1, {}, (1, 64)),
    # Each GPU has one.
    (32, 64, {"gpus": 2}, (2, 2)),
    (32, 64, {"gpus": 2, "n_workers": 1}, (1, 2)),
]
LIMITS = [(0, 4, None), ("1 GiB", 4, GIB), (0.5, 2, 4 * GIB), ("auto", 4, 2 * GIB)]


@cases(("cores", "gib", "given", "expected"), SHARES)
def test_cores_and_memory_are_shared_out(cores, gib, given, expected):
    memory = int(gib * GIB)
    found = local.choose_workers(**given, cores=cores, memory_bytes=memory)
    assert (found.workers, found.threads) == expected
    assert found.memory.limit == memory // expected[0]


@cases(("limit", "workers", "memory"), LIMITS)
def test_a_memory_limit_leaves_room_for_so_many(limit, workers, memory):
    machine = {"cores": 4, "memory_bytes": 8 * GIB}
    found = local.choose_workers(memory_limit=limit, **machine)
    assert (found.workers, found.memory.limit) == (workers, memory)
    # A number that is given counts on its limits not being reached.
    assert local.choose_workers(3, memory_limit=limit, **machine).workers == 3


def test_what_does_not_fit_is_refused():
    least = local.LEAST_BYTES
    machine = {"cores": 4, "memory_bytes": 8 * least}
    assert local.choose_workers(8, **machine).workers == 8
    assert local.choose_workers(1, memory_limit=least, **machine)
    small, limits = {"n_workers": 1}, ("much", float("nan"), float("inf"), [1])
    shares = 0.05, "0.05"
    for error, code, options in (
        (PlanError, "too-many-workers", {"n_workers": 9}),
        (PlanError, "too-many-workers", {"n_workers": 3, "gpus": 2}),
        (PlanError, "not-positive", {"n_workers": 0}),
        (PlanError, "not-positive", {"n_workers": 2.5}),
        (PlanError, "not-positive", {"threads_per_worker": -1}),
        (MemoryLimitError, "memory", small | {"memory_limit": "300 MiB"}),
        (MemoryLimitError, "memory", small | {"memory_limit": least - 1}),
        *((MemoryLimitError, "memory", small | {"memory_limit": x}) for x in shares),
        *((PlanError, "memory-limit", {"memory_limit": x}) for x in limits),
    ):
        with raises(error, code):
            local.choose_workers(**options, **machine)
    for name in ("workers", "memory", "asynchronous"):
        with raises(ArgumentError, "unknown-option"):
            td.local_cluster(gpus=False, **{name: 2})


def start(rmm=True, own_memory=True, **arguments):
    """Arguments of the cluster that would start, without its own folder."""
    there = recording_clusters(2, rmm, own_memory)
    with there as calls, pytest.raises(SystemExit):
        td.local_cluster(**arguments)
    (call,) = calls
    folder = call.pop("local_directory")
    assert call["scheduler_kwargs"].pop("local_directory") == folder
    assert folder.startswith(arguments.get("local_directory", gettempdir()))
    return call


LOOPBACK_ONLY = {
    "host": "127.0.0.1",
    "interface": None,
    "security": True,
    "protocol": None,
    "dashboard_address": "127.0.0.1:0",
    "scheduler_kwargs": {"dashboard": False},
}
POOL = {
    "rmm_pool_size": 0.9,
    "rmm_allocator_external_lib_list": ["cupy"],
    # Plans take 0.8 of the pool, of which a tenth is inside of tasks.
    "device_memory_limit": pytest.approx(0.9 * 0.8 * 0.9),
}


def test_dask_cuda_is_asked_for_a_pool_that_cupy_shares(tmp_path):
    shared = {"n_workers": 2, "threads_per_worker": 2, "memory_limit": GIB}
    expected = LOOPBACK_ONLY | POOL | shared
    assert start(memory_limit=GIB) == expected
    own = {"rmm_pool_size": "1 GiB"}
    fast = str(tmp_path / "fast")
    assert start(memory_limit=GIB, local_directory=fast, **own) == expected | own
    # A pool is of RMM, and a GPU may share the memory of the host.
    assert "rmm_pool_size" not in start(rmm=False)
    assert "rmm_pool_size" not in start(own_memory=False)


def test_gpus_are_used_only_where_there_are_enough(monkeypatch):
    with recording_clusters(2):
        assert [local.choose_gpus(None, x) for x in (None, 2, 3)] == [2, 2, 0]
        assert [local.choose_gpus(True, 3), local.choose_gpus(False)] == [2, 0]
        # dask-cuda would count one.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert local.choose_gpus() == 0
    with recording_clusters(0), raises(EngineUnavailableError, "no-gpu"):
        local.choose_gpus(True)
    with with_modules(dask_cuda=None), raises(EngineUnavailableError, "no-gpu"):
        local.choose_gpus(True)


# What is given, and the protocol and the security that dask gets.
OWN, PLAIN = Security(require_encryption=True), {"security": False}
TRANSPORTS = [
    ({}, (None, True)),
    (PLAIN, (None, None)),
    ({"security": True}, (None, True)),
    ({"security": OWN}, (None, OWN)),
    ({"protocol": "tls"}, ("tls", True)),
    ({"protocol": "tcp", **PLAIN}, ("tcp", None)),
    ({"protocol": "ucx", **PLAIN}, ("ucx", None)),
]
# dask takes UCX by its options, too.
OPEN = [{"protocol": x} for x in ("tcp", "ucx", "ucxx")]
OPEN += [{"enable_nvlink": True}, {"host": "ucx://127.0.0.1"}]


@cases("where", [{}, {"gpus": False}])
def test_only_who_says_so_leaves_a_cluster_open(where):
    for given, chosen in TRANSPORTS:
        call = start(**given, **where)
        assert (call["protocol"], call["security"]) == chosen
    for asked in OPEN:
        for security in ({}, {"security": True}, {"security": OWN}):
            there = recording_clusters(2)
            with there, raises(PlanError, "unencrypted-protocol"):
                td.local_cluster(**asked, **security, **where)
    call = start(interface="ib0", dashboard=True, **where)
    assert (call["host"], call["interface"]) == (None, "ib0")
    assert call["dashboard_address"] == "127.0.0.1:8787"
    assert call["scheduler_kwargs"] == {"dashboard": True}


def test_dask_cuda_has_these_parameters():
    dask_cuda = pytest.importorskip("dask_cuda")
    known = inspect.signature(dask_cuda.LocalCUDACluster).parameters
    common = inspect.signature(LocalCluster).parameters
    assert {*LOOPBACK_ONLY, *POOL} <= set(known) | set(common)
