"""Counting GPUs, by a stand-in for the module pynvml: no GPU is needed."""

import pytest

from tests.support.nvml import UUIDS, fail, fake_nvml
from twom_dist.cluster.nvml import Gpu, ask_nvml, find_gpus


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
    expected = (Gpu(f"GPU {i}", 100 * i, 90 * i, UUIDS[i]) for i in found)
    assert gpus.visible == tuple(expected)
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


def test_slices_of_a_gpu_are_found():
    places = {0: 3, 4: 4}
    cut = {
        "nvmlDeviceGetMigMode": lambda gpu: (int(gpu == 1), 0),
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda _, i: places.get(i) or fail(),
    }
    gpus = ask_nvml(fake_nvml(**cut), None)
    assert [gpu.slices for gpu in gpus.visible] == [(), ("MIG-dd", "MIG-ee"), ()]
