"""GPUs as NVML counts them, and what local_cluster asks dask and dask-cuda for."""

import inspect
from tempfile import gettempdir

import pytest
from distributed import LocalCluster, Security

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.nvml import UUIDS, cut_into_slices, fail, fake_nvml, with_modules
from tests.support.places import STAND_INS
from twom_dist.cluster import local, nvml
from twom_dist.errors import EngineUnavailableError, PlanError

GIB = 1 << 30
TWO_GPUS = fake_nvml((100 * GIB, 90 * GIB), (100 * GIB, 80 * GIB))


@pytest.fixture(autouse=True)
def all_are_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


# --- how many there are ---------------------------------------------------------------


@cases(
    ("named", "found"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-bb", [1]),
        ("1, 7, 0", [1]),
        *(("-1", []), ("", [])),
    ],
)
def test_gpus_are_those_that_cuda_would_see(named, found, monkeypatch):
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    with with_modules(pynvml=fake_nvml()):
        gpus = nvml.find_gpus()
    expected = (nvml.Gpu(f"GPU {i}", 100 * i, 90 * i, UUIDS[i]) for i in found)
    assert gpus.visible == tuple(expected)
    assert gpus.cuda == (12, 8)
    assert bool(gpus.reason) != bool(found)


@cases("broken", ["nvmlInit", "nvmlDeviceGetName"])
def test_nvml_that_fails_is_a_reason(broken):
    with with_modules(pynvml=fake_nvml(**{broken: fail})):
        gpus = nvml.find_gpus()
    assert (gpus.visible, bool(gpus.reason)) == ((), True)
    with with_modules(pynvml=fake_nvml(nvmlDeviceGetCount=lambda: 0)):
        assert nvml.find_gpus().reason
    # Nor does a machine without the driver raise.
    gpus = nvml.find_gpus()
    assert bool(gpus.visible) != bool(gpus.reason)


def test_gpus_may_not_tell_their_memory_and_tell_their_slices():
    others = cut_into_slices(1) | {"nvmlDeviceGetMemoryInfo": fail}
    with with_modules(pynvml=fake_nvml(**others)):
        gpus = nvml.find_gpus()
    assert [gpu.total_bytes for gpu in gpus.visible] == [0, 0, 0]
    assert [gpu.slices for gpu in gpus.visible] == [(), ("MIG-dd", "MIG-ee"), ()]


# --- the cluster that starts ----------------------------------------------------------


class Started(Exception):  # noqa: N818
    """Instead of a cluster, with its arguments."""


def record(rmm_pool_size=None, **arguments):
    pool = {} if rmm_pool_size is None else {"rmm_pool_size": rmm_pool_size}
    raise Started(arguments | pool)


DASK_CUDA = {"LocalCUDACluster": record}
RMM = {"__version__": "25.0"}


def start(gpus_there=TWO_GPUS, rmm=True, **arguments):
    """Arguments of the cluster that would start, without its own folder."""
    modules = {"pynvml": gpus_there, "dask_cuda": DASK_CUDA}
    modules |= {"rmm": RMM if rmm else None}
    with with_modules(**modules), pytest.raises(Started) as caught:
        td.local_cluster(**arguments)
    (call,) = caught.value.args
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
BOTH = {"CUDA_VISIBLE_DEVICES": ["GPU-aa", "GPU-bb"]}


def test_gpus_are_used_where_dask_cuda_is_installed():
    for installed in (None, DASK_CUDA):
        with with_modules(pynvml=TWO_GPUS, dask_cuda=installed):
            assert bool(local.choose_gpus().visible) == bool(installed)
            assert len(local.choose_gpus(gpus=True).visible) == 2
            assert not local.choose_gpus(gpus=False).visible
            assert not local.choose_gpus(n_workers=3).visible
    nowhere = with_modules(pynvml=TWO_GPUS, dask_cuda=None)
    with nowhere, raises(EngineUnavailableError, "no-dask-cuda"):
        td.local_cluster(gpus=True)


def test_dask_cuda_is_asked_for_a_pool_that_cupy_shares(tmp_path):
    shared = {"n_workers": 2, "threads_per_worker": 2, "memory_limit": GIB}
    expected = LOOPBACK_ONLY | POOL | BOTH | shared
    assert start(memory_limit=GIB) == expected
    own = {"rmm_pool_size": "1 GiB"}
    fast = str(tmp_path / "fast")
    assert start(memory_limit=GIB, local_directory=fast, **own) == expected | own
    # Only the GPUs that workers get decide.
    call = start(n_workers=1)
    assert call["CUDA_VISIBLE_DEVICES"] == ["GPU-aa"]
    assert call["rmm_pool_size"] == 81 * GIB
    # A pool is of RMM, and a GPU may share the memory of the host.
    assert "rmm_pool_size" not in start(rmm=False)
    assert "rmm_pool_size" not in start(fake_nvml((0, 0)))
    (tmp_path / "file").touch()
    gpus = with_modules(pynvml=TWO_GPUS, dask_cuda=DASK_CUDA)
    with gpus, raises(EngineUnavailableError, "no-folder"):
        td.local_cluster(local_directory=str(tmp_path / "file"))


@cases("gib", [8, 16, 80])
def test_outputs_of_planned_tasks_stay_on_the_device(gib):
    total, free = gib * GIB, gib * GIB - GIB // 2
    pool = start(fake_nvml((total, free)))
    size, outputs = pool["rmm_pool_size"], pool["device_memory_limit"]
    assert size == int(0.9 * free)
    # Plans take 0.8 of the pool: a tenth of that is inside of tasks.
    assert 0.9 * 0.8 * size <= outputs + 1 <= 0.8 * size


def test_a_gpu_that_others_use_is_named_and_slices_have_to_be():
    memory = [(100 * GIB, x * GIB) for x in (90, 80, 10)]
    with pytest.warns(UserWarning, match=r"GPU-cc.* 10.00 GiB of 100.00 GiB free"):
        assert start(fake_nvml(*memory))["rmm_pool_size"] == 9 * GIB
    cut = fake_nvml(*memory, **cut_into_slices(2))
    for gpus in (None, True):
        there = with_modules(pynvml=cut, dask_cuda=DASK_CUDA)
        with there, raises(EngineUnavailableError, "gpu-slices") as caught:
            td.local_cluster(gpus=gpus)
        assert "GPU-aa,GPU-bb,MIG-dd,MIG-ee" in caught.value.remedy


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
def test_only_who_says_so_leaves_a_cluster_open(where, monkeypatch):
    # Its entry point says that dask can speak UCX.
    monkeypatch.syspath_prepend(STAND_INS / "gpu")
    monkeypatch.setattr("distributed.LocalCluster", record)
    for given, chosen in TRANSPORTS:
        call = start(**given, **where)
        assert (call["protocol"], call["security"]) == chosen
    # dask takes UCX by its options, too.
    for asked in (
        *({"protocol": x} for x in ("tcp", "ucx", "ucxx")),
        *({"enable_nvlink": True}, {"host": "ucx://127.0.0.1"}),
    ):
        for security in ({}, {"security": True}, {"security": OWN}):
            with raises(PlanError, "unencrypted-protocol"):
                start(**asked, **security, **where)
    call = start(interface="ib0", dashboard=True, **where)
    assert (call["host"], call["interface"]) == (None, "ib0")
    assert call["dashboard_address"] == "127.0.0.1:8787"
    assert call["scheduler_kwargs"] == {"dashboard": True}


def test_dask_cuda_has_these_parameters():
    dask_cuda = pytest.importorskip("dask_cuda")
    known = inspect.signature(dask_cuda.LocalCUDACluster).parameters
    common = inspect.signature(LocalCluster).parameters
    assert {*LOOPBACK_ONLY, *POOL, *BOTH} <= set(known) | set(common)
