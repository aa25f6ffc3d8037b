"""GPUs that this process may use, as NVML counts them, without a CUDA context."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gpu:
    """A GPU that this process may use, or a slice of one (MIG).

    Bytes are 0 if unknown. `slices`: UUIDs of the slices that the GPU is cut into; CUDA
    uses only the first.
    """

    name: str
    total_bytes: int
    free_bytes: int
    uuid: str = ""
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gpus:
    """GPUs that this process may use, or the reason why it may use none."""

    visible: tuple[Gpu, ...] = ()
    # The newest version that the driver supports.
    cuda: tuple[int, int] = (0, 0)
    reason: str = ""

    @property
    def count(self) -> str:
        """Number of visible GPUs in words, such as "2 GPUs"."""
        return f"{len(self.visible)} GPU" + "s" * (len(self.visible) != 1)


def find_gpus() -> Gpus:
    """Ask NVML, and return the reason instead of raising an error."""
    try:
        import pynvml
    except ImportError:
        return Gpus(reason="nvidia-ml-py, which finds GPUs, is not installed")
    return ask_nvml(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES"))


def ask_nvml(nvml: Any, named: str | None) -> Gpus:
    """Ask the module pynvml; `named` is CUDA_VISIBLE_DEVICES."""
    try:
        nvml.nvmlInit()
        try:
            present = nvml.nvmlDeviceGetCount()
            visible = tuple(_find_visible(nvml, present, named))
            cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        return Gpus(reason=f"NVML does not answer ({error})")
    hidden = f"CUDA_VISIBLE_DEVICES={named!r} hides all {present}"
    reason = "" if visible else hidden if present else "this machine has none"
    # 1000 major + 10 minor
    return Gpus(visible, (cuda // 1000, cuda % 1000 // 10), reason)


def _find_visible(nvml: Any, present: int, named: str | None) -> Iterator[Gpu]:
    devices = map(str, range(present)) if named is None else named.split(",")
    for device in map(str.strip, devices):
        try:
            if device.isdecimal():
                handle = nvml.nvmlDeviceGetHandleByIndex(int(device))
            else:
                handle = nvml.nvmlDeviceGetHandleByUUID(device)
        except nvml.NVMLError:
            # CUDA hides this GPU and all that follow one that it does not know.
            return
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            total, free = int(memory.total), int(memory.free)
        except nvml.NVMLError:
            # GPUs that share the host's memory do not support this query.
            total = free = 0
        name, uuid = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)
        yield Gpu(name, total, free, uuid, tuple(_find_slices(nvml, handle)))


def _find_slices(nvml: Any, handle: Any) -> Iterator[str]:
    """List the UUIDs of the slices that a GPU is cut into, if it is."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        # GPUs that cannot be cut, and slices themselves, do not support this query.
        return
    if current:
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with suppress(nvml.NVMLError):  # no slice has this index
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
                yield nvml.nvmlDeviceGetUUID(part)
