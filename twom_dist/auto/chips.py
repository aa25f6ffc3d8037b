"""The chip that multiplies: name and units that decide its speed."""

import os
import platform
from functools import cache
from typing import Any, NamedTuple

from dask.system import CPU_COUNT

from ..typing import EngineName

UNSEEN = 90  # that of an H200, which stands for a GPU that a process does not see


class Chip(NamedTuple):
    """A CPU with its cores, or a GPU, as the kernel or the driver calls them."""

    name: str
    capability: int = 0  # 89 for 8.9; 0 of a CPU
    vnni: bool = False  # AVX512-VNNI, if Numba compiles for it
    amx: bool = False  # besides


NOT_SEEN = Chip("a GPU that this process does not see", UNSEEN)


def chip_of(engine: EngineName | str) -> Chip:
    """Name the chip on which an engine multiplies in this process."""
    return _gpu() if engine == "cuda" else _cpu()


@cache
def _cpu() -> Chip:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return describe_cpu(file.read())
    except OSError:
        return describe_cpu("")


def describe_cpu(text: str) -> Chip:
    """Read Linux's description, which is finer than platform's."""
    first = text.partition("\n\n")[0].splitlines()
    fields = dict(line.split(":", 1) for line in first if ":" in line)
    told = {name.strip(): value.strip() for name, value in fields.items()}
    # Virtual machines hide the generation from the name, and Arm has none: of its
    # "model name" only 32-bit programs are told.
    name = told.get("model name") or platform.processor() or platform.machine()
    numbers = " ".join(f"{x.split()[-1]} {told[x]}" for x in _NUMBERS if x in told)
    kind = f" ({numbers})" if numbers else ""
    flags = set(told.get("flags", "").split())
    # Numba is not loaded to choose a method, and can be set to compile for another CPU.
    if any(os.environ.get(x) for x in _OTHER) or os.environ.get(_AVX) == "0":
        flags = set()
    has_vnni = {"avx512_vnni", "avx512bw"} <= flags
    has_amx = has_vnni and {"amx_tile", "amx_int8"} <= flags
    cores = f"{CPU_COUNT} core{'s' * (CPU_COUNT > 1)}"
    return Chip(f"{name}{kind}, {cores}", vnni=has_vnni, amx=has_amx)


_OTHER, _AVX = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"), "NUMBA_ENABLE_AVX"
# Arm has the last three, and the kernel knows no names.
_NUMBERS = ("cpu family", "model", "CPU implementer", "CPU part", "CPU variant")


def _gpu() -> Chip:
    try:
        from cupy.cuda import runtime

        return _describe(runtime, runtime.getDevice())
    except (ImportError, RuntimeError):
        return NOT_SEEN  # a client without a GPU builds graphs for workers with one


@cache
def _describe(runtime: Any, device: int) -> Chip:
    told = runtime.getDeviceProperties(device)
    capability = 10 * int(told["major"]) + int(told["minor"])
    return Chip(told["name"].decode(), capability)
