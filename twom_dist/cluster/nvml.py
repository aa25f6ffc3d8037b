"""GPUs as NVML counts them: no package is needed and no CUDA context is made.

NVML comes with the driver. Its Python package comes with dask-cuda, and would be
missing just where somebody must be told to install that. Signatures:
https://docs.nvidia.com/deploy/nvml-api/
"""

import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
# NVML_DEVICE_NAME_V2_BUFFER_SIZE is 96, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80.
_TEXT_BYTES = 96


@dataclass(frozen=True)
class Gpu:
    """A GPU that this process may use.

    Attributes
    ----------
    device : str
        Its entry of CUDA_VISIBLE_DEVICES: an index or a UUID.
    name : str
    total_bytes, free_bytes : int
        0 where it has no memory of its own.
    """

    device: str
    name: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Gpus:
    """The GPUs of this machine, or the reason that there are none.

    Attributes
    ----------
    visible : tuple of Gpu
    present : int
        With those that CUDA_VISIBLE_DEVICES hides.
    driver : str
    cuda : tuple of int
        The newest CUDA that the driver runs.
    reason : str
        Why none is visible; empty where one is.
    """

    visible: tuple[Gpu, ...] = ()
    present: int = 0
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)
    reason: str = ""

    @property
    def count(self) -> str:
        """How many are visible, in words."""
        return f"{len(self.visible)} GPU" + "s" * (len(self.visible) != 1)

    @property
    def extra(self) -> str:
        """The extra of this package that suits the driver."""
        return "cuda13" if self.cuda >= (13, 0) else "cuda12"


class _Memory(ctypes.Structure):
    """``nvmlMemory_t``."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _NvmlError(Exception):
    """A call of NVML that returned an error."""


class _Nvml:
    """The calls that are made here; each raises `_NvmlError`."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise _NvmlError(f"{name} returned error {code}")

    def count(self, name: str, kind: Any) -> int:
        number = kind()
        self.call(name, ctypes.byref(number))
        return int(number.value)

    def text(self, name: str, *arguments: Any) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self.call(name, *arguments, buffer, ctypes.c_uint(_TEXT_BYTES))
        return buffer.value.decode(errors="replace")

    def handle(self, device: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        by = "Index_v2" if device.isdecimal() else "UUID"
        key = ctypes.c_uint(int(device)) if device.isdecimal() else device.encode()
        self.call(f"nvmlDeviceGetHandleBy{by}", key, ctypes.byref(handle))
        return handle

    def gpu(self, device: str) -> Gpu:
        handle = self.handle(device)
        memory = _Memory()
        try:
            self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        except _NvmlError:
            # Devices that share the host's memory do not support the question.
            memory = _Memory()
        name = self.text("nvmlDeviceGetName", handle)
        return Gpu(device, name, int(memory.total), int(memory.free))


def find_gpus() -> Gpus:
    """Ask NVML for the GPUs that this process may use; never raises."""
    try:
        nvml = _Nvml(ctypes.CDLL(_LIBRARY))
    except OSError:
        return Gpus(reason=f"there is no {_LIBRARY}, which the driver installs")
    try:
        nvml.call("nvmlInit_v2")
        found = _ask(nvml)
        nvml.call("nvmlShutdown")
    except _NvmlError as error:
        return Gpus(reason=f"NVML does not answer ({error})")
    return found


def _ask(nvml: _Nvml) -> Gpus:
    present = nvml.count("nvmlDeviceGetCount_v2", ctypes.c_uint)
    # 1000 major + 10 minor
    cuda = nvml.count("nvmlSystemGetCudaDriverVersion_v2", ctypes.c_int)
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = tuple(_visible(nvml, present, named))
    reason = ""
    if not visible:
        hidden = f"CUDA_VISIBLE_DEVICES={named!r} hides all {present}"
        reason = hidden if present else "NVML counts no GPU"
    return Gpus(
        visible,
        present,
        nvml.text("nvmlSystemGetDriverVersion"),
        (cuda // 1000, cuda % 1000 // 10),
        reason,
    )


def _visible(nvml: _Nvml, present: int, named: str | None) -> Iterator[Gpu]:
    devices = map(str, range(present)) if named is None else named.split(",")
    for device in devices:
        try:
            yield nvml.gpu(device.strip())
        except _NvmlError:
            # An entry that CUDA does not know hides all after it.
            return
