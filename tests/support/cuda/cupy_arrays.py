"""CuPy's arrays in memory of the host: what their library does is a launch, too.

`engine="auto"` takes these arrays to a CUDA engine whose kernels run on the host. A
view stays a view: an array that only a copy could give another shape is refused.
"""

from contextlib import contextmanager
from unittest import mock

import numpy as np

import twom_dist.tiles.spec as spec
from tests.support.cuda.host_device import HostDevice
from tests.support.modules import with_modules
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.problem import matrices
from twom_dist.run import prepared


class DeviceArray(np.ndarray):
    """An array of the device, as `family_of` tells them."""

    launched: list = []  # noqa: RUF012

    def __array_ufunc__(self, ufunc, method, *given, **more):
        found = getattr(ufunc, method)(*_plain(given), **_plain(more))
        return self._launch(ufunc.__name__, found)

    def __array_function__(self, function, types, args, kw):
        found = function(*_plain(args), **_plain(kw))
        if function is np.broadcast_to:
            return found.view(DeviceArray)
        return self._launch(function.__name__, found)

    def __getitem__(self, place):
        found = np.asarray(self)[_plain(place)]
        copied = np.ndim(found) and not np.shares_memory(found, _plain(self))
        return self._launch("take" if copied else "", found)

    def __setitem__(self, place, value):
        self.launched.append("cupy.assign")
        np.asarray(self)[_plain(place)] = _plain(value)

    def reshape(self, *shape):
        found = np.asarray(self).reshape(*shape)
        shared = not self.size or np.shares_memory(found, _plain(self))
        assert shared, "the copy of an operand"
        return found.view(DeviceArray)

    def take(self, *args, **more):
        return self._launch("take", np.asarray(self).take(*args, **more))

    def astype(self, *args, **more):
        found = np.asarray(self).astype(*args, **more)
        copied = not np.shares_memory(found, _plain(self))
        return self._launch("astype" if copied else "", found)

    def get(self):
        self.launched.append("get")
        return np.array(self)

    def __bool__(self):
        return bool(self.get())

    def _launch(self, name, found):
        if name:
            self.launched.append(f"cupy.{name}")
        if isinstance(found, tuple):
            return tuple(np.asarray(x).view(DeviceArray) for x in found)
        return np.asarray(found).view(DeviceArray)


DeviceArray.__module__ = "cupy"


def _plain(x):
    """View an array of the device as NumPy's, for the stand-in itself."""
    if isinstance(x, DeviceArray):
        return x.view(np.ndarray)
    if isinstance(x, tuple | list):
        return type(x)(map(_plain, x))
    return {k: _plain(v) for k, v in x.items()} if isinstance(x, dict) else x


class CupyDevice(HostDevice):
    def empty(self, shape, dtype):
        return super().empty(shape, dtype).view(DeviceArray)


@contextmanager
def cupy_device(kernels, capability):
    """Have CuPy's arrays be such a device's."""
    device = CupyDevice(kernels, capability)
    DeviceArray.launched, engine = device.launched, CudaEngine(device)
    library = {
        "ndarray": DeviceArray,
        "empty": device.empty,
        "asarray": lambda x: x if isinstance(x, DeviceArray) else device.send(x),
        "asnumpy": DeviceArray.get,
        "__getattr__": lambda name: getattr(np, name),
    }
    load = lambda name: engine if name == "cuda" else get_engine(name)  # noqa: E731
    with (
        with_modules(cupy=library),
        mock.patch.object(matrices, "_check_device", return_value=None),
        mock.patch.object(spec, "get_engine", load),
        mock.patch.object(prepared, "get_engine", load),
    ):
        yield device
