"""The units of this CPU: vectors, int8 products, and the permission to use AMX."""

import ctypes
import os
import platform
import sys
from functools import cache
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

from .jit import instructions

# Linux on x86-64: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
# Linux on Arm: where it says that the CPU has products of bytes, and CPUs of which LLVM
# knows it, but does not list it. Of others it could not select the instruction, and
# would abort.
_MATRICES = ("neoverse-v1", "neoverse-n2", "neoverse-v2", "ampere1", "ampere1a")
_FOURS = ("neoverse-n1", "cortex-a76", "cortex-a77", "cortex-a78", "cortex-a78ae")
_OF_ARM = {
    "dotprod": (16, 1 << 20, _FOURS + _MATRICES),  # AT_HWCAP, HWCAP_ASIMDDP
    "i8mm": (26, 1 << 13, _MATRICES),  # AT_HWCAP2, HWCAP2_I8MM
}


@cache
def find_features() -> frozenset[str]:
    """List the instruction sets that Numba compiles for, by LLVM's names."""
    config = numba.config
    if config.CPU_NAME or config.CPU_FEATURES or not config.ENABLE_AVX:
        return frozenset()
    try:
        features = get_host_cpu_features()
    except RuntimeError:  # LLVM knows none of this host
        return frozenset()
    found = {name for name, present in features.items() if present}
    if sys.platform == "linux" and platform.machine() == "aarch64":
        auxiliary = ctypes.CDLL(None).getauxval
        auxiliary.argtypes, auxiliary.restype = (ctypes.c_ulong,), ctypes.c_ulong
        for name, (kind, bit, cpus) in _OF_ARM.items():
            if get_host_cpu_name() in cpus and auxiliary(kind) & bit:
                found.add(name)
    return frozenset(found)


def count_lanes() -> int:
    """Count the words of a vector of VNNI: 16 of AVX-512, 8 of AVX alone, or 0."""
    features = find_features()
    if {"avx512vnni", "avx512bw"} <= features:
        return 16
    return 8 if {"avxvnni", "avx2", "fma"} <= features else 0


def has_vnni() -> bool:
    """Tell whether Numba compiles for a CPU with VNNI."""
    return count_lanes() > 0


def has_amx() -> bool:
    """Tell whether the CPU has AMX's products of int8, and AVX-512 for all else."""
    return {"amx-tile", "amx-int8"} <= find_features() and count_lanes() == 16


@cache
def refuse_amx() -> str | None:
    """Say why AMX is not used, or ask Linux for its tiles and return None.

    Threads share the permission, and a child of `fork` inherits it. It is refused where
    the alternate signal stack of a thread is too small for the tiles.
    """
    if not has_amx():
        return "the CPU has none"
    if sys.platform != "linux":
        return "it is used on Linux alone"
    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) != 0:
        return f"Linux refuses it: {os.strerror(ctypes.get_errno())}"
    return None


@instructions
def take_widest(builder: Any) -> None:
    """Have the loops of this function take vectors of 512 bits where there are any.

    For Intel's CPUs LLVM prefers half of that, since their clocks would fall. Our
    products take the widest in any case.
    """
    attributes: set[str] = builder.function.attributes
    # llvmlite knows those without a value.
    set.add(attributes, '"prefer-vector-width"="512"')
