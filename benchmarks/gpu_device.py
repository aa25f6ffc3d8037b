"""Description of the device on which a result was measured."""

import cupy as cp
from gpu_peers import version_name


def cublas_version() -> int:
    """Return the version of cuBLAS that CuPy has loaded."""
    return int(cp.cuda.cublas.getVersion(cp.cuda.device.get_cublas_handle()))


def describe_device() -> str:
    """Return name, memory, CUDA and cuBLAS of the current device."""
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    return (
        f"{properties['name'].decode()}, {properties['totalGlobalMem'] >> 30} GiB, "
        f"CUDA {cp.cuda.runtime.runtimeGetVersion()}, "
        f"cuBLAS {version_name(cublas_version())}"
    )
