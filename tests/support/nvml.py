"""Stand-ins for modules, for pynvml on a machine with GPUs, and for clusters."""

import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from tests.support.places import STAND_INS


@contextmanager
def with_modules(**given):
    """Have modules of these names, each with its attributes; None has no module."""
    before = {name: sys.modules.pop(name, None) for name in given}
    for name, attributes in given.items():
        made = None if attributes is None else ModuleType(name)
        if made is not None:
            made.__spec__ = ModuleSpec(name, None)
            vars(made).update(attributes or {})
        sys.modules[name] = made
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def fake_nvml(*memory):
    """Make the functions of pynvml; `memory`: total and free of each GPU."""
    found = [SimpleNamespace(total=x, free=y) for x, y in memory]

    def fail(*_):
        raise OSError

    return {
        "NVMLError": OSError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(found),
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
        "nvmlDeviceGetHandleByIndex": lambda x: x,
        "nvmlDeviceGetName": lambda x: f"GPU {x}",
        "nvmlDeviceGetUUID": lambda x: f"GPU-{x}",
        "nvmlDeviceGetMigMode": fail,
        "nvmlDeviceGetMemoryInfo": lambda x: found[x],
    }


@contextmanager
def recording_clusters(gpus, rmm):
    """Note what clusters are asked for and end the process instead; UCX is there."""
    calls = []

    def record(rmm_pool_size=None, **given):
        pool = {} if rmm_pool_size is None else {"rmm_pool_size": rmm_pool_size}
        calls.append(given | pool)
        raise SystemExit

    modules = {"pynvml": gpus, "dask_cuda": {"LocalCUDACluster": record}}
    modules["rmm"] = {"__version__": "25.0"} if rmm else None
    with with_modules(**modules), pytest.MonkeyPatch.context() as patch:
        # Its entry point says that dask can speak UCX.
        patch.syspath_prepend(STAND_INS / "gpu")
        patch.setattr("distributed.LocalCluster", record)
        yield calls
