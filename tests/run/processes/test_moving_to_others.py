"""Accumulators that another process receives."""

import pickle
import subprocess
import sys

import numpy as np
from distributed.protocol import serialize

from twom_dist.kernels.cuda.fill import CudaFill
from twom_dist.tiles.moving import DeviceAccumulator


def accumulator(kind=np.ndarray):
    values = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
    marks, rows = np.eye(3, 4, dtype=np.uint8), np.arange(3, dtype=np.int32)
    fill = CudaFill(*(x.view(kind) for x in (marks, rows, rows[:2])))
    return DeviceAccumulator(values.view(kind), fill)


# A worker of dask-cuda may import us first: the class alone has to tell all.
_RECEIVER = """
import sys
import twom_dist
assert "distributed" not in sys.modules
from types import ModuleType
from dask.utils import Dispatch
module = ModuleType("dask_cuda.is_device_object")
module.is_device_object = Dispatch("is_device_object")
module.is_device_object.register(object, lambda x: False)
sys.modules["dask_cuda"] = ModuleType("dask_cuda")
sys.modules["dask_cuda.is_device_object"] = module
import pickle
from distributed.protocol import deserialize
found = deserialize(*pickle.load(sys.stdin.buffer))
assert module.is_device_object(found) and found.values.sum() == 276, found
"""


def test_whoever_receives_one_can_read_it():
    header, frames = serialize(accumulator(), serializers=["dask"])
    sent = pickle.dumps((header, [bytes(x) for x in frames]))
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", _RECEIVER]
    subprocess.run(command, input=sent, check=True, timeout=60)
