"""CuPy on a machine without a device: arrays of no memory, a driver that does nothing.

All that a call does on a GPU before the device has work runs: ours, and CuPy's arrays
and allocations. Only the runtime, the driver and the pool are stand-ins.
"""

from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod
from time import process_time
from types import SimpleNamespace
from unittest import mock

import cupy
import numba
import numpy as np

from twom_dist.kernels import registry
from twom_dist.kernels.cuda import device as device_module
from twom_dist.kernels.cuda import hopper, scripts
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.problem import matrices
from twom_dist.run import prepared
from twom_dist.tiles import spec

# Addresses where there is no memory: nothing is read or written.
_START, _BYTES, _LINE = 1 << 40, 1 << 40, 512
_PROPERTIES = {
    "major": 9,
    "minor": 0,
    "multiProcessorCount": 132,
    "sharedMemPerBlockOptin": 227 << 10,
    "totalGlobalMem": 80 << 30,
}


@numba.cfunc("int32(int64,int64,int64,int64)")
def _launch(config, kernel, pointers, extra):
    return 0


class IdleDevice:
    """Memory of the host, and what a call asks CuPy for: `asked`, when it is noted."""

    def __init__(self):
        self._own = cupy.cuda.UnownedMemory(_START, _BYTES, None, 0)
        self._end, self._free = 0, {}
        self.asked = []
        self.engine = CudaEngine(device_module.CudaDevice())

    def matrix(self, *shape, dtype="complex128"):
        """Make an array where nothing else lies."""
        place = self._take(prod(shape) * np.dtype(dtype).itemsize)
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(self._own, place))

    def _take(self, size):
        place = self._end
        self._end += -(-size // _LINE) * _LINE
        return place

    def allocate(self, size):
        """Stand for a pool that gets everything back before it is asked again."""
        place = self._free.get(size)
        if place is None:
            place = self._free[size] = self._take(size)
        return cupy.cuda.MemoryPointer(self._own, place)

    @contextmanager
    def noting(self):
        """Note what CuPy is asked for, by name, with a function that asks it again."""
        self.asked.clear()
        owners = {
            "empty": cupy,
            "alloc": cupy.cuda,
            "getDevice": cupy.cuda.runtime,
            "get_current_stream": cupy.cuda,
            "run": device_module,
        }
        with ExitStack() as patches:
            for name, owner in owners.items():
                own = getattr(owner, name)

                def note(*given, name=name, own=own):
                    again = own if name != "run" else lambda *_: None
                    self.asked.append((name, partial(again, *given)))
                    return own(*given)

                patches.enter_context(mock.patch.object(owner, name, note))
            yield

    def counts(self, call):
        """Count what a call asks CuPy for."""
        with self.noting():
            call()
        return Counter(name for name, _ in self.asked)

    def shares(self, call, count=1000, rounds=7):
        """Measure microseconds of the processor: of a call, and without CuPy's share.

        That is what it asks CuPy for, asked again, stand-ins included.
        """
        call()
        self.counts(call)
        theirs = [again for _, again in self.asked]

        def ask():
            for again in theirs:
                again()

        rows = ([mean_us(x, count) for x in (call, ask)] for _ in range(rounds))
        whole, own = map(min, zip(*rows, strict=True))
        return whole, whole - own


def mean_us(call, count):
    """Measure the processor's time for one of many calls."""
    start = process_time()
    for _ in range(count):
        call()
    return 1e6 * (process_time() - start) / count


@contextmanager
def idle_device():
    """Have CuPy's arrays be those of a device that takes no time."""
    load, stream = registry.get_engine, SimpleNamespace(ptr=0)
    with ExitStack() as patches:

        def put(owner, **given):
            for name, value in given.items():
                patches.enter_context(mock.patch.object(owner, name, value))

        put(
            cupy.cuda.runtime,
            getDevice=lambda: 0,
            getDeviceProperties=lambda _: _PROPERTIES,
            driverGetVersion=lambda: 13000,
        )
        put(cupy.cuda, get_current_stream=lambda: stream)
        put(device_module, launcher=lambda: _launch.address)
        put(device_module, _function=lambda *_: SimpleNamespace(ptr=1))
        put(device_module, _properties=lambda _: _PROPERTIES)
        # Not that of other tests, which looks into arrays of NumPy.
        plain = [
            x for x in scripts.Recorder.__mro__ if x.__module__ == scripts.__name__
        ]
        put(scripts, Recorder=plain[0])
        put(hopper, driver_function=lambda _: lambda *_: 0)
        put(matrices, _check_device=lambda _: None)
        found = IdleDevice()
        table = found.matrix(1, dtype="uint8")
        put(device_module.CudaDevice, constant=lambda *_: table)
        for module in (spec, prepared):
            own = lambda name="cpu": found.engine if name == "cuda" else load(name)  # noqa: E731
            put(module, get_engine=own)
        patches.enter_context(cupy.cuda.using_allocator(found.allocate))
        prepared._prepared.clear()
        hopper.map_planes.cache_clear()
        yield found
        prepared._prepared.clear()
        hopper.map_planes.cache_clear()
