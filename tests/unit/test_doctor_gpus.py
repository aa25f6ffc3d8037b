"""The doctor on GPUs that are not here.

NVML, CuPy, cuBLAS and the packages of dask-cuda are stand-ins: what is tested is what
is asked of them, and what is said of their answers.
"""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from twom_dist.cluster import Report, devices, engines
from twom_dist.cluster.nvml import Gpu, Gpus, find_gpus
from twom_dist.errors import EngineUnavailableError

GPU = Gpu("0", "NVIDIA H200", 140 << 30, 130 << 30)
GPUS = Gpus((GPU,), 1, "580.65", (13, 0))
UUIDS = ("GPU-aa", "GPU-bb", "GPU-cc")


def statuses(findings):
    """Names and statuses."""
    return {finding.name: finding.status for finding in findings}


# --- NVML -------------------------------------------------------------------------


def fake_nvml(init=0, memory=0):
    """The functions of libnvidia-ml.so.1 that are called, for three GPUs."""

    def write(target, value):
        target._obj.value = value
        return 0

    def write_text(target, length, value):
        assert length.value == len(target)
        target.value = value
        return 0

    def find_index(index, handle):
        return write(handle, 1 + index.value) if index.value < len(UUIDS) else 2

    def find_uuid(uuid, handle):
        name = uuid.decode()
        return write(handle, 1 + UUIDS.index(name)) if name in UUIDS else 6

    def measure(handle, target):
        target._obj.total, target._obj.free = 100 * handle.value, 90 * handle.value
        return memory

    return SimpleNamespace(
        nvmlInit_v2=lambda: init,
        nvmlShutdown=lambda: 0,
        nvmlDeviceGetCount_v2=lambda count: write(count, len(UUIDS)),
        nvmlSystemGetCudaDriverVersion_v2=lambda version: write(version, 12080),
        nvmlSystemGetDriverVersion=lambda text, n: write_text(text, n, b"570.1"),
        nvmlDeviceGetHandleByIndex_v2=find_index,
        nvmlDeviceGetHandleByUUID=find_uuid,
        nvmlDeviceGetName=lambda h, text, n: write_text(text, n, b"GPU %d" % h.value),
        nvmlDeviceGetMemoryInfo=measure,
    )


@pytest.fixture
def nvml(monkeypatch):
    """Put a stand-in where the driver's library is loaded."""

    def install(library):
        monkeypatch.setattr("twom_dist.cluster.nvml.ctypes.CDLL", lambda name: library)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return install


@pytest.mark.parametrize(
    ("named", "devices"),
    [
        (None, ["0", "1", "2"]),
        ("2,0", ["2", "0"]),
        ("GPU-bb", ["GPU-bb"]),
        ("1, 7, 0", ["1"]),
        ("-1", []),
        ("", []),
    ],
)
def test_gpus_are_those_that_cuda_would_see(nvml, monkeypatch, named, devices):
    nvml(fake_nvml())
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    gpus = find_gpus()
    assert [gpu.device for gpu in gpus.visible] == devices
    assert (gpus.present, gpus.driver, gpus.cuda) == (3, "570.1", (12, 8))
    assert bool(gpus.reason) != bool(devices)
    if named == "2,0":
        assert gpus.visible[0] == Gpu("2", "GPU 3", 300, 270)


def test_nvml_that_is_not_there_or_fails_is_a_reason(nvml, monkeypatch):
    nvml(fake_nvml(init=9))
    assert find_gpus() == Gpus(
        reason="NVML does not answer (nvmlInit_v2 returned error 9)"
    )
    nvml(fake_nvml(memory=3))
    assert {gpu.total_bytes for gpu in find_gpus().visible} == {0}

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr("twom_dist.cluster.nvml.ctypes.CDLL", missing)
    assert "libnvidia-ml.so.1" in find_gpus().reason


# --- GPUs ---------------------------------------------------------------------------


@pytest.fixture
def cupy(monkeypatch):
    """NumPy in the place of CuPy, and a device that multiplies with it."""
    cupy, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    cupy.__version__, cupy.cuda = "14.2.0", cuda
    cupy.asarray, cupy.asnumpy, cupy.arange = np.asarray, np.asarray, np.arange
    cuda.runtime = SimpleNamespace(runtimeGetVersion=lambda: 13020)
    cuda.cublas = SimpleNamespace(getVersion=lambda handle: 130100)
    cuda.device = SimpleNamespace(get_cublas_handle=lambda: 0)
    cuda.Device = lambda: SimpleNamespace(compute_capability="90")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)

    def multiply(x, y, sums):
        sums[...] = np.matmul(x, y.swapaxes(1, 2), dtype=np.int32)

    device = SimpleNamespace(
        empty=np.empty, multiply_int8=multiply, synchronize=lambda: None
    )
    monkeypatch.setattr("twom_dist.kernels.cuda.device.open_device", lambda: device)
    monkeypatch.setattr(devices, "_SIDE", 64)
    return device


def test_a_gpu_in_order(cupy):
    found = list(devices.check_gpus(GPUS)) + list(devices.check_cupy(GPUS))
    assert statuses(found) == dict.fromkeys(
        ("GPU", "CuPy", "int8 product, cuda", "CuPy blocks"), "ok"
    )
    lines = str(Report(tuple(found)))
    assert "1 GPU, NVIDIA H200 (140 GiB); driver 580.65, for CUDA up to 13.0" in lines
    assert "14.2.0, CUDA 13.2, cuBLAS 130100, compute capability 90" in lines
    assert statuses(engines.check_engine(GPUS)) == {"engine": "ok"}


def test_a_device_that_saturates_fails(cupy, monkeypatch):
    def saturate(x, y, sums):
        sums[...] = np.clip(np.matmul(x, y.swapaxes(1, 2), dtype=np.int32), -1e6, 1e6)

    cupy.multiply_int8 = saturate
    assert statuses(devices.check_cupy(GPUS))["int8 product, cuda"] == "failure"


def test_blocks_that_cannot_be_sent_name_the_extra(cupy, monkeypatch):
    def fail(*_, **__):
        raise ImportError("No module named 'numba.cuda'")

    monkeypatch.setattr("distributed.protocol.serialize", fail)
    *_, found = devices.check_cupy(GPUS)
    assert found.status == "failure"
    assert "numba-cuda: pip install 'twom-dist[cuda13]'" in found.advice


@pytest.mark.parametrize(("there", "status"), [(True, "failure"), (None, "warning")])
def test_a_gpu_that_the_engine_refuses_is_told_once(monkeypatch, there, status):
    def refuse():
        raise EngineUnavailableError("it needs CuPy (none); install it")

    monkeypatch.setattr("twom_dist.kernels.cuda.device.open_device", refuse)
    monkeypatch.setattr(engines, "find_spec", lambda name: there)
    (found,) = engines.check_engine(GPUS)
    assert (found.status, found.advice) == (status, "install it")
    assert found.found.endswith(
        "nothing multiplies CuPy arrays, as it needs CuPy (none)"
    )
    assert list(devices.check_cupy(GPUS)) == []


@pytest.mark.parametrize("there", [True, False])
def test_what_dask_needs_on_gpus(monkeypatch, there):
    for name in ("dask_cuda", "rmm"):
        module = SimpleNamespace(__version__="26.10") if there else None
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(devices, "has_ucx", lambda: there)
    older = Gpus((GPU,), 1, "570.1", (12, 8))
    found = list(devices.check_dask_on_gpus(older))
    expected = dict.fromkeys(("dask-cuda", "RMM", "UCX"), "ok" if there else "warning")
    assert statuses(found) == expected
    assert there or {x.advice for x in found} == {"pip install 'twom-dist[cuda12]'"}


def test_hidden_gpus_are_told():
    hidden = Gpus((), 4, "580", (13, 0), "CUDA_VISIBLE_DEVICES='' hides all 4")
    assert statuses(devices.check_gpus(hidden)) == {"GPU": "warning"}
    assert statuses(devices.check_gpus(Gpus(reason="none"))) == {"GPU": "ok"}
