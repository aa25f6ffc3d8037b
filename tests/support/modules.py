"""Stand-ins for modules, and for clusters on a machine with GPUs."""

import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest


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


@contextmanager
def recording_clusters(gpus, rmm=True, own_memory=True):
    """Note what clusters are asked for and end the process instead.

    `own_memory`: whether the GPUs have some, or share that of the host.
    """
    calls = []

    def record(rmm_pool_size=None, **given):
        pool = {} if rmm_pool_size is None else {"rmm_pool_size": rmm_pool_size}
        calls.append(given | pool)
        raise SystemExit

    utils = {
        "get_n_gpus": lambda: gpus,
        "has_device_memory_resource": lambda: own_memory,
    }
    modules = {"dask_cuda": {"LocalCUDACluster": record}, "dask_cuda.utils": utils}
    modules["rmm"] = {"__version__": "25.0"} if rmm else None
    with with_modules(**modules), pytest.MonkeyPatch.context() as patch:
        patch.setattr("distributed.LocalCluster", record)
        yield calls
