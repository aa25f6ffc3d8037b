"""Counting GPUs, by a stand-in for the module pynvml: no GPU is needed."""

from types import SimpleNamespace

import pytest

from twom_dist.cluster.nvml import Gpu, ask_nvml, find_gpus

UUIDS = ("GPU-aa", "GPU-bb", "GPU-cc")


class NVMLError(Exception):
    """The error of pynvml."""


def fail(*_):
    raise NVMLError("not here")


def find(handle):
    return handle if handle in range(len(UUIDS)) else fail()


def fake_nvml(**others):
    """Stand in for pynvml on a machine with three GPUs."""
    functions = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(UUIDS),
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
        "nvmlDeviceGetHandleByIndex": find,
        "nvmlDeviceGetHandleByUUID": lambda x: UUIDS.index(x) if x in UUIDS else fail(),
        "nvmlDeviceGetName": lambda handle: f"GPU {handle}",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(
            total=100 * handle, free=90 * handle
        ),
    }
    return SimpleNamespace(NVMLError=NVMLError, **functions | others)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-bb", [1]),
        ("1, 7, 0", [1]),
        ("-1", []),
        ("", []),
    ],
)
def test_gpus_are_those_that_cuda_would_see(named, found):
    gpus = ask_nvml(fake_nvml(), named)
    assert gpus.visible == tuple(Gpu(f"GPU {i}", 100 * i, 90 * i) for i in found)
    assert gpus.cuda == (12, 8)
    assert bool(gpus.reason) != bool(found)


def test_nvml_that_fails_is_a_reason():
    for name in ("nvmlInit", "nvmlDeviceGetName"):
        gpus = ask_nvml(fake_nvml(**{name: fail}), None)
        assert (gpus.visible, bool(gpus.reason)) == ((), True)
    assert ask_nvml(fake_nvml(nvmlDeviceGetCount=lambda: 0), None).reason
    # Nor does a machine without the driver raise.
    gpus = find_gpus()
    assert bool(gpus.visible) != bool(gpus.reason)


def test_gpus_may_not_tell_their_memory():
    gpus = ask_nvml(fake_nvml(nvmlDeviceGetMemoryInfo=fail), None)
    assert [gpu.total_bytes for gpu in gpus.visible] == [0, 0, 0]
