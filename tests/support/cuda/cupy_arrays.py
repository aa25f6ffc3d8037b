"""CuPy's arrays in memory of the host: what their library does is a launch, too.

`engine="auto"` takes these arrays to a CUDA engine whose kernels run on the host. A
view stays a view: an array that only a copy could give another shape is refused.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.cuda.host import HostKernels
from tests.support.cuda.host_device import HostDevice
from twom_dist.kernels.cuda.engine import CudaEngine


class DeviceArray(np.ndarray):
    """An array of the device, as `family_of` tells them."""

    launched: list[str]

    def __array_finalize__(self, of: Any) -> None:
        """Keep the list of launches."""
        self.launched = getattr(of, "launched", [])

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Any:
        """Compute by a launch."""
        if "out" in more:
            more["out"] = tuple(map(_plain, more["out"]))
        found = getattr(ufunc, method)(*map(_plain, given), **_plain(more))
        return self._launch(ufunc.__name__, found)

    def __array_function__(self, function: Any, types: Any, args: Any, kw: Any) -> Any:
        """Compute by a launch, unless it makes a view."""
        found = function(*_plain(args), **_plain(kw))
        if function is np.broadcast_to:
            return self._wrap(found)
        return self._launch(function.__name__, found)

    def __getitem__(self, place: Any) -> Any:
        """View, or copy by a launch."""
        found = np.asarray(self)[_plain(place)]
        if np.ndim(found) and not _shares(found, self):
            return self._launch("take", found)
        return self._wrap(found)

    def __setitem__(self, place: Any, value: Any) -> None:
        """Copy by a launch."""
        self.launched.append("cupy.assign")
        np.asarray(self)[_plain(place)] = _plain(value)

    def reshape(self, *shape: Any) -> "DeviceArray":
        """View, never copy."""
        found = np.asarray(self).reshape(*shape)
        assert not self.size or _shares(found, self), "the copy of an operand"
        return self._wrap(found)

    def take(self, *args: Any, **more: Any) -> "DeviceArray":
        """Copy by a launch."""
        return self._launch("take", np.asarray(self).take(*args, **more))

    def astype(self, *args: Any, **more: Any) -> "DeviceArray":
        """Copy by a launch, where it has another type."""
        found = np.asarray(self).astype(*args, **more)
        shared = _shares(found, self)
        return self._wrap(found) if shared else self._launch("astype", found)

    def get(self) -> np.ndarray:
        """Copy to the host, and wait."""
        self.launched.append("get")
        return np.array(np.asarray(self))

    def __bool__(self) -> bool:
        """Fetch, and wait."""
        return bool(self.get())

    def _launch(self, name: str, found: Any) -> Any:
        self.launched.append(f"cupy.{name}")
        return self._wrap(found)

    def _wrap(self, found: Any) -> Any:
        if isinstance(found, tuple):
            return tuple(map(self._wrap, found))
        found = np.asarray(found).view(DeviceArray)
        found.launched = self.launched
        return found


DeviceArray.__module__ = "cupy"


def _shares(x: Any, y: Any) -> bool:
    return np.shares_memory(_plain(x), _plain(y))


def _plain(x: Any) -> Any:
    """View an array of the device as NumPy's, for the stand-in itself."""
    if isinstance(x, DeviceArray):
        return x.view(np.ndarray)
    if isinstance(x, tuple | list):
        return type(x)(map(_plain, x))
    return {k: _plain(v) for k, v in x.items()} if isinstance(x, dict) else x


class CupyDevice(HostDevice):
    """A device of such arrays."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Allocate, and list what becomes of it."""
        return self.adopt(super().empty(shape, dtype))

    def adopt(self, x: np.ndarray) -> Any:
        """View memory of the host as the device's."""
        found = x.view(DeviceArray)
        found.launched = self.launched
        return found

    def send(self, x: np.ndarray) -> Any:
        """Copy to the device."""
        found = self.empty(x.shape, x.dtype)
        _plain(found)[...] = x
        self.launched.append("send")
        return found

    def fetch(self, arrays: Any, meanwhile: Any = None) -> list[np.ndarray]:
        """Copy arrays of one allocation."""
        return super().fetch([*map(_plain, arrays)], meanwhile)

    def launch(
        self,
        module: Any,
        name: str,
        grid: Any,
        block: Any,
        args: Any,
        shared: int = 0,
    ) -> None:
        """Run every thread."""
        super().launch(module, name, grid, block, [*map(_plain, args)], shared)

    def multiply_int8(self, x: Any, y: Any, sums: Any) -> None:
        """Multiply integers."""
        super().multiply_int8(*map(_plain, (x, y, sums)))

    def filled(self, shape: tuple[int, ...], dtype: Any, byte: int = 0) -> Any:
        """Allocate, every byte alike."""
        out = self.empty(shape, dtype)
        self.launched.append("memset")
        _plain(out).reshape(-1).view(np.uint8)[...] = byte
        return out


class _Namespace(ModuleType):
    """The library's functions: those of NumPy, by launches."""

    ndarray = DeviceArray

    def __init__(self, device: CupyDevice) -> None:
        super().__init__("cupy")
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def asarray(self, x: Any) -> Any:
        """Send to the device."""
        return x if isinstance(x, DeviceArray) else self._device.send(x)

    def asnumpy(self, x: Any) -> np.ndarray:
        """Fetch, and wait."""
        return x.get()

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        """Allocate."""
        return self._device.empty(shape, dtype)


def use_device(
    kernels: HostKernels, capability: int, monkeypatch: pytest.MonkeyPatch
) -> CupyDevice:
    """Have CuPy's arrays be such a device's, until the test ends."""
    import twom_dist.tiles.spec as spec
    from twom_dist.kernels import get_engine

    device = CupyDevice(kernels, capability)
    engine = CudaEngine(device)

    def load(name: str) -> Any:
        return engine if name == "cuda" else get_engine(name)

    monkeypatch.setattr(spec, "get_engine", load)
    monkeypatch.setitem(sys.modules, "cupy", _Namespace(device))
    return device
