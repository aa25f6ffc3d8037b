"""What local_cluster asks dask and dask-cuda for, with stand-ins for both."""

import inspect
import sys
from contextlib import nullcontext
from tempfile import gettempdir
from types import SimpleNamespace

import pytest
from distributed import LocalCluster, Security

import twom_dist as td
from tests.support.expect import raises
from tests.support.nvml import fake_nvml
from tests.support.places import STAND_INS
from twom_dist.cluster import cuda, local, pages
from twom_dist.cluster.nvml import Gpu, Gpus, ask_nvml
from twom_dist.errors import EngineUnavailableError, PlanError

GIB = 1 << 30
# A distribution whose entry point says that dask can speak UCX.
WITH_UCX = STAND_INS / "gpu"
TWO_GPUS = Gpus(
    (Gpu("A", 100 * GIB, 90 * GIB, "GPU-a"), Gpu("A", 100 * GIB, 80 * GIB, "GPU-b")),
    (13, 0),
)


def test_gpus_are_used_where_dask_cuda_is_installed(monkeypatch):
    monkeypatch.setattr(local, "find_gpus", lambda: TWO_GPUS)
    for there in (None, True):
        monkeypatch.setattr(local, "find_spec", lambda name, there=there: there)
        assert bool(local.choose_gpus().visible) == bool(there)
        assert local.choose_gpus(gpus=True) == TWO_GPUS
        assert not local.choose_gpus(gpus=False).visible
        assert not local.choose_gpus(n_workers=3).visible


@pytest.fixture
def recorded(monkeypatch):
    """The arguments of every cluster that would start, on two GPUs, RMM and UCX."""
    calls = []

    def record(rmm_pool_size=None, **arguments):
        pool = {} if rmm_pool_size is None else {"rmm_pool_size": rmm_pool_size}
        calls.append(arguments | pool)
        return nullcontext()

    dask_cuda = SimpleNamespace(LocalCUDACluster=record)
    monkeypatch.setitem(sys.modules, "dask_cuda", dask_cuda)
    monkeypatch.setattr("distributed.LocalCluster", record)
    client = SimpleNamespace(register_plugin=lambda plugin: None)
    monkeypatch.setattr("distributed.Client", lambda cluster: nullcontext(client))
    monkeypatch.setattr(pages, "close_pages", lambda client: None)
    monkeypatch.setattr(local, "find_gpus", lambda: TWO_GPUS)
    for module in (local, cuda):
        monkeypatch.setattr(module, "find_spec", lambda _: True)
    monkeypatch.syspath_prepend(WITH_UCX)
    return calls


def start(calls, **arguments):
    """Arguments of the one cluster that starts, without its own folder."""
    calls.clear()
    td.local_cluster(**arguments).close()
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
    # 0.9 of the 80 GiB that are free.
    "rmm_pool_size": 72 * GIB,
    "rmm_allocator_external_lib_list": ["cupy"],
    "device_memory_limit": int(0.72 * 72 * GIB),
}
BOTH = {"CUDA_VISIBLE_DEVICES": ["GPU-a", "GPU-b"]}


def test_dask_cuda_is_asked_for_a_pool_that_cupy_shares(recorded, tmp_path):
    shared = {"n_workers": 2, "threads_per_worker": 2, "memory_limit": GIB}
    expected = LOOPBACK_ONLY | POOL | BOTH | shared
    assert start(recorded, memory_limit=GIB) == expected
    own = {"rmm_pool_size": "1 GiB"}
    fast = str(tmp_path / "fast")
    found = start(recorded, memory_limit=GIB, local_directory=fast, **own)
    assert found == expected | own


def test_a_folder_that_cannot_be_made_is_refused(recorded, tmp_path):
    (tmp_path / "file").touch()
    with raises(EngineUnavailableError, "no-folder"):
        start(recorded, local_directory=str(tmp_path / "file"))


def test_only_the_gpus_that_workers_get_decide(recorded):
    call = start(recorded, n_workers=1)
    assert call["CUDA_VISIBLE_DEVICES"] == ["GPU-a"]
    assert call["rmm_pool_size"] == 81 * GIB


def test_a_pool_is_of_rmm_and_of_gpus_with_memory(monkeypatch):
    monkeypatch.setattr(cuda, "find_spec", lambda _: True)
    assert cuda.choose_pool(TWO_GPUS.visible) == POOL
    # A GPU may share the memory of the host.
    assert cuda.choose_pool([Gpu("GB10", 0, 0)]) == {}
    monkeypatch.setattr(cuda, "find_spec", lambda _: None)
    assert cuda.choose_pool(TWO_GPUS.visible) == {}


@pytest.mark.parametrize("gib", [8, 16, 80])
def test_outputs_of_planned_tasks_stay_on_the_device(monkeypatch, gib):
    monkeypatch.setattr(cuda, "find_spec", lambda _: True)
    memory = SimpleNamespace(total=gib * GIB, free=gib * GIB - GIB // 2)
    nvml = fake_nvml(nvmlDeviceGetMemoryInfo=lambda _: memory)
    pool = cuda.choose_pool(ask_nvml(nvml, "0").visible)
    size, outputs = pool["rmm_pool_size"], pool["device_memory_limit"]
    assert size == int(0.9 * memory.free)
    # Plans take 0.8 of the pool: a tenth of that is inside of tasks.
    assert 0.9 * 0.8 * size <= outputs + 1 <= 0.8 * size


def test_a_gpu_that_others_use_is_named(monkeypatch):
    monkeypatch.setattr(cuda, "find_spec", lambda _: True)
    busy = Gpu("A", 100 * GIB, 10 * GIB, "GPU-busy")
    with pytest.warns(UserWarning, match=r"GPU-busy.* 10.00 GiB of 100.00 GiB free"):
        pool = cuda.choose_pool([*TWO_GPUS.visible, busy])
    assert pool["rmm_pool_size"] == 9 * GIB


def test_slices_of_a_gpu_have_to_be_named(recorded, monkeypatch):
    cut = Gpu("A", 80 * GIB, 80 * GIB, "GPU-c", ("MIG-d", "MIG-e"))
    found = Gpus((*TWO_GPUS.visible, cut), (13, 0))
    monkeypatch.setattr(local, "find_gpus", lambda: found)
    for gpus in (None, True):
        with raises(EngineUnavailableError, "gpu-slices") as caught:
            start(recorded, gpus=gpus)
        assert "GPU-a,GPU-b,MIG-d,MIG-e" in caught.value.remedy
    assert start(recorded, gpus=False)


# What is given, and the protocol and the security that dask gets.
OWN = Security(require_encryption=True)
PLAIN = {"security": False}
TRANSPORTS = [
    ({}, (None, True)),
    (PLAIN, (None, None)),
    ({"security": True}, (None, True)),
    ({"security": OWN}, (None, OWN)),
    ({"protocol": "tls"}, ("tls", True)),
    ({"protocol": "tcp", **PLAIN}, ("tcp", None)),
    ({"protocol": "ucx", **PLAIN}, ("ucx", None)),
]


@pytest.mark.parametrize("where", [{}, {"gpus": False}])
@pytest.mark.parametrize(("given", "chosen"), TRANSPORTS)
def test_only_who_says_so_leaves_a_cluster_open(recorded, where, given, chosen):
    call = start(recorded, **given, **where)
    assert (call["protocol"], call["security"]) == chosen


def test_what_cannot_be_is_refused_before_anything_starts(recorded, monkeypatch):
    # dask takes UCX by its options, too.
    open_ones = [{"protocol": x} for x in ("tcp", "ucx", "ucxx")]
    open_ones += [{"enable_nvlink": True}, {"host": "ucx://127.0.0.1"}]
    for asked in open_ones:
        for security in ({}, {"security": True}, {"security": OWN}):
            with raises(PlanError, "unencrypted-protocol"):
                start(recorded, **asked, **security)
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    with raises(EngineUnavailableError, "no-dask-cuda"):
        cuda.find_cluster_class(TWO_GPUS)
    assert recorded == []


def test_an_interface_and_a_dashboard_when_asked_for(recorded):
    call = start(recorded, gpus=False, interface="ib0", dashboard=True)
    assert (call["host"], call["interface"]) == (None, "ib0")
    assert call["dashboard_address"] == "127.0.0.1:8787"
    assert call["scheduler_kwargs"] == {"dashboard": True}


def test_dask_cuda_has_these_parameters():
    dask_cuda = pytest.importorskip("dask_cuda")
    known = inspect.signature(dask_cuda.LocalCUDACluster).parameters
    common = inspect.signature(LocalCluster).parameters
    assert {*LOOPBACK_ONLY, *POOL, *BOTH} <= set(known) | set(common)
