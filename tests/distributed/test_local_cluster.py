"""Clusters of one machine: started for real on cores, recorded for GPUs.

No GPU is needed: NVML's answer and `dask_cuda.LocalCUDACluster` are stand-ins, of which
the second records its call.
"""

import inspect
import os
import sys
from contextlib import suppress
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import urlopen

import dask
import dask.array as da
import psutil
import pytest
from dask.system import CPU_COUNT
from distributed import LocalCluster, default_client

import twom_dist as td
from tests.command import CommandLine, make, same_bits
from twom_dist.cluster.nvml import Gpu, Gpus
from twom_dist.errors import EngineUnavailableError

GIB = 1 << 30
TWO_GPUS = Gpus(
    (Gpu("0", "A", 100 * GIB, 80 * GIB), Gpu("3", "A", 100 * GIB, 90 * GIB)),
    *(4, "580.65", (13, 0)),
)
NO_GPUS = Gpus(reason="NVML counts no GPU")


# --- for real -------------------------------------------------------------------------


def processes():
    """Every process that this one started and that is still there."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            # Python's own stays for the next spawn.
            if "resource_tracker" not in " ".join(process.cmdline()):
                found.add(process)
    return found


def listening(pids):
    """Addresses that these processes listen on."""
    return {
        x.laddr.ip
        for pid in pids
        for x in psutil.Process(pid).net_connections(kind="inet")
        if x.status == psutil.CONN_LISTEN
    }


def fetch(client, page):
    """Status of a page that the scheduler may serve."""
    port = client.scheduler_info()["services"]["dashboard"]
    try:
        return urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10).status
    except HTTPError as error:
        error.close()
        return error.code


@pytest.fixture
def own_routes():
    """Forget the page of a missing bokeh.

    Each scheduler that wants a dashboard appends it to the list in dask's settings.
    """
    name = "distributed.scheduler.http.routes"
    routes = [r for r in dask.config.get(name) if not r.endswith("missing_bokeh")]
    with dask.config.set({name: routes}):
        yield


def test_a_cluster_multiplies_agrees_and_leaves_nothing(capsys, own_routes):
    before = processes()
    a, b = make(90, 70, 1), make(70, 50, 2)
    with td.local_cluster(n_workers=2, gpus=False) as client:
        product = td.zgemm(da.from_array(a, chunks=40), da.from_array(b, chunks=40))
        assert same_bits(product.compute(), td.zgemm(a, b))
        workers = client.scheduler_info()["workers"].values()
        limits = [worker["memory_limit"] for worker in workers]
        assert len(limits) == 2
        assert sum(limits) <= psutil.virtual_memory().total
        started = {process.pid for process in processes() - before}
        assert started >= set(client.run(os.getpid).values())
        assert listening({os.getpid(), *started}) == {"127.0.0.1"}
        assert [fetch(client, page) for page in ("health", "status")] == [200, 404]
        _examine(client, CommandLine(capsys))
    assert processes() <= before
    with pytest.raises(ValueError, match="No client"):
        default_client()


def _examine(client, command):
    """Let the doctor look at two workers."""
    address = client.scheduler.address
    report = td.doctor()
    rows = {finding.name: finding.found for finding in report.findings}
    assert report.ok, report
    assert rows["workers"] == f"2 at {address}, {2 * _threads()} threads in all"
    assert rows["worker packages"] == "the same in all 4 processes"
    assert rows["worker twom-dist"] == "the same in all 4 processes"
    code, out, _ = command("doctor", "--scheduler", address)
    assert (code, f"2 at {address}" in out) == (0, True)


def _threads():
    return max(1, CPU_COUNT // 2)


def test_workers_share_gpus(monkeypatch):
    monkeypatch.setattr("twom_dist.cluster.local.find_gpus", lambda: TWO_GPUS)
    names = ("CUDA_VISIBLE_DEVICES", "CUPY_GPU_MEMORY_LIMIT")
    before = processes()
    with td.local_cluster(gpu_share=1, memory_limit="1 GiB") as client:
        environments = client.run(lambda: [os.environ[name] for name in names])
        # Half of the 80 % that the workers of a GPU have.
        assert dask.config.get("twom-dist.workspace-bytes") == 40 * GIB
        settings = client.run(lambda: dask.config.get("twom-dist.workspace-bytes"))
    assert sorted(environments.values()) == [["0", "80%"], ["3", "80%"]]
    assert set(settings.values()) == {40 * GIB}
    assert dask.config.get("twom-dist.workspace-bytes") is None
    assert processes() <= before


# --- what is asked for ----------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch):
    """The arguments of every cluster that would start."""
    calls = []

    class Recorder:
        def __init__(self, *clusters, **arguments):
            if not clusters:
                calls.append(arguments)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    stand_in = SimpleNamespace(LocalCUDACluster=Recorder)
    monkeypatch.setitem(sys.modules, "dask_cuda", stand_in)
    monkeypatch.setattr("distributed.LocalCluster", Recorder)
    monkeypatch.setattr("distributed.Client", Recorder)
    return calls


@pytest.fixture
def on_gpus(monkeypatch, recorded):
    """The same with two GPUs, and all packages or none."""

    def install(gpus=TWO_GPUS, rmm=True, ucx=True):
        monkeypatch.setattr("twom_dist.cluster.local.find_gpus", lambda: gpus)
        monkeypatch.setattr("twom_dist.cluster.cuda.find_spec", lambda _: rmm or None)
        monkeypatch.setattr("twom_dist.cluster.cuda.has_ucx", lambda: ucx)

    return install


def start(calls, **arguments):
    """Arguments of the one cluster that starts."""
    calls.clear()
    with td.local_cluster(**arguments):
        pass
    (call,) = calls
    return call


LOOPBACK_ONLY = {
    "host": "127.0.0.1",
    "interface": None,
    "security": None,
    "dashboard_address": "127.0.0.1:0",
    "scheduler_kwargs": {"dashboard": False},
}
ON_GPUS = LOOPBACK_ONLY | {
    "protocol": "ucx",
    "n_workers": None,
    "threads_per_worker": 1,
    "memory_limit": "auto",
    # 0.9 of the 80 GiB that are free, less half of 100 GiB.
    "rmm_pool_size": 72 * GIB,
    "rmm_allocator_external_lib_list": ["cupy"],
    "device_memory_limit": 22 * GIB,
}


def test_dask_cuda_is_asked_for_a_pool_that_cupy_shares(recorded, on_gpus):
    on_gpus()
    assert start(recorded) == ON_GPUS
    assert start(recorded, gpus=True, n_workers=1) == ON_GPUS | {"n_workers": 1}
    own = {"rmm_pool_size": "1 GiB", "local_directory": "/fast"}
    assert start(recorded, **own) == ON_GPUS | own


def test_a_large_workspace_leaves_outputs_a_share(recorded, on_gpus):
    on_gpus()
    with dask.config.set({"twom-dist.workspace-bytes": "71 GiB"}):
        assert start(recorded)["device_memory_limit"] == 72 * GIB // 10


def test_without_rmm_or_memory_of_its_own_there_is_no_pool(recorded, on_gpus):
    pool = {"rmm_pool_size", "rmm_allocator_external_lib_list", "device_memory_limit"}
    on_gpus(rmm=False)
    assert not pool & set(start(recorded))
    on_gpus(Gpus((Gpu("0", "GB10", 0, 0),), 1, "580", (13, 0)))
    assert not pool & set(start(recorded))


def test_the_protocol_is_what_is_installed_asked_for_or_secure(recorded, on_gpus):
    on_gpus(ucx=False)
    assert start(recorded)["protocol"] == "tcp"
    on_gpus()
    assert start(recorded, protocol="tcp")["protocol"] == "tcp"
    secure = start(recorded, security=True)
    assert (secure["protocol"], secure["security"]) == (None, True)


def test_an_interface_and_a_dashboard_when_asked_for(recorded, monkeypatch):
    monkeypatch.setattr("twom_dist.cluster.local.find_spec", lambda _: True)
    call = start(recorded, gpus=False, interface="ib0", dashboard=True)
    assert (call["host"], call["interface"]) == (None, "ib0")
    assert call["dashboard_address"] == "127.0.0.1:8787"
    assert call["scheduler_kwargs"] == {"dashboard": True}


@pytest.mark.parametrize(
    ("given", "workers", "threads"),
    [
        ({}, 8, 4),
        ({"n_workers": 2}, 2, 16),
        ({"n_workers": 5}, 5, 6),
        ({"n_workers": 64}, 64, 1),
        ({"threads_per_worker": 8}, 4, 8),
        ({"n_workers": 3, "threads_per_worker": 1}, 3, 1),
    ],
)
def test_cores_and_memory_are_shared_out(
    recorded, monkeypatch, given, workers, threads
):
    monkeypatch.setattr("dask.system.CPU_COUNT", 32)
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 64 * GIB)
    assert start(recorded, gpus=False, **given) == LOOPBACK_ONLY | {
        "protocol": None,
        "n_workers": workers,
        "threads_per_worker": threads,
        "memory_limit": 64 * GIB // workers,
    }
    assert start(recorded, gpus=False, memory_limit=0)["memory_limit"] == 0


def test_dask_cuda_has_these_parameters():
    dask_cuda = pytest.importorskip("dask_cuda")
    known = inspect.signature(dask_cuda.LocalCUDACluster).parameters
    common = inspect.signature(LocalCluster).parameters
    assert set(ON_GPUS) <= set(known) | set(common)


# --- what is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "extra"), [((13, 0), "cuda13"), ((13, 2), "cuda13"), ((12, 8), "cuda12")]
)
def test_gpus_without_dask_cuda_name_the_extra(on_gpus, monkeypatch, cuda, extra):
    on_gpus(Gpus(TWO_GPUS.visible, 2, "580", cuda))
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    text = rf"finds 2 GPUs and dask-cuda cannot be .*'twom-dist\[{extra}\]'.*gpus=False"
    with pytest.raises(EngineUnavailableError, match=text), td.local_cluster():
        pass


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"gpus": True}, EngineUnavailableError, "gpus=True given and NVML counts no"),
        ({"gpu_share": 2}, EngineUnavailableError, "gpu_share=2 given and NVML counts"),
        ({"gpu_share": 2, "gpus": False}, ValueError, "give one of them"),
        ({"gpu_share": 2, "n_workers": 2}, ValueError, "leave n_workers out"),
        ({"n_workers": 0}, ValueError, "n_workers=0 given; it is a positive integer"),
        ({"dashboard": True}, ImportError, "needs bokeh, which is not installed"),
    ],
)
def test_what_cannot_be_is_refused(recorded, monkeypatch, given, kind, text):
    monkeypatch.setattr("twom_dist.cluster.local.find_gpus", lambda: NO_GPUS)
    monkeypatch.setattr("twom_dist.cluster.local.find_spec", lambda _: None)
    with pytest.raises(kind, match=text), td.local_cluster(**given):
        pass
    assert recorded == []


def test_more_workers_than_gpus_are_refused(on_gpus):
    on_gpus()
    text = "n_workers=3 given and 2 GPUs visible; .* share each GPU with gpu_share"
    with pytest.raises(ValueError, match=text), td.local_cluster(n_workers=3):
        pass
