"""A stand-in for the module pynvml, on a machine with three GPUs."""

from types import SimpleNamespace

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
        "nvmlDeviceGetUUID": lambda handle: (*UUIDS, "MIG-dd", "MIG-ee")[handle],
        "nvmlDeviceGetMigMode": fail,
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(
            total=100 * handle, free=90 * handle
        ),
    }
    return SimpleNamespace(NVMLError=NVMLError, **functions | others)
