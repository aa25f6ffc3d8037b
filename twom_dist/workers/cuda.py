"""Workers on GPUs: what dask-cuda finds here, and the memory that it shares out."""

import os
from importlib.util import find_spec
from typing import Any

from ..errors import INSTALL_CUDA
from ..plan.memory import OUTPUT_SHARE

# Share of a device's memory; contexts, cuBLAS and the modules of the kernels need the
# rest. By arithmetic; not measured.
POOL_SHARE = 0.9
# CUDA_VISIBLE_DEVICES that hide all GPUs, of which dask-cuda would count one.
_HIDDEN = ("", "-1", "NoDevFiles")


def count_gpus() -> tuple[int, str]:
    """Count the GPUs that dask-cuda would use, or say why there are none."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named in _HIDDEN:
        return 0, f"CUDA_VISIBLE_DEVICES={named!r} hides all"
    try:
        from dask_cuda.utils import get_n_gpus
    except ImportError as error:
        return 0, f"dask-cuda cannot be imported ({error}): install it: {INSTALL_CUDA}"
    try:
        return int(get_n_gpus()), "this machine has none"
    except Exception as error:  # NVML's own
        return 0, f"NVML does not answer ({error})"


def choose_pool() -> dict[str, Any]:
    """Choose the memory pool of dask-cuda's workers, and when they begin to spill.

    Shares of a device's memory, ``rmm_pool_size = 0.9`` and ``device_memory_limit =
    0.72 rmm_pool_size``: dask-cuda sees only the inputs and outputs of tasks. On an
    H100 of 79 GiB they are 71 and 51 GiB.
    """
    from dask_cuda.utils import has_device_memory_resource

    # dask-cuda refuses a pool without RMM, and has none for memory the host shares.
    if find_spec("rmm") is None or not has_device_memory_resource():
        return {}
    return {
        "rmm_pool_size": POOL_SHARE,
        "rmm_allocator_external_lib_list": ["cupy"],
        "device_memory_limit": OUTPUT_SHARE * POOL_SHARE,
    }
