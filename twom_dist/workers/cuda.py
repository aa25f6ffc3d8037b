"""Options for dask-cuda: a pool of device memory and a limit at which it spills."""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from dask.utils import format_bytes

from ..errors import INSTALL_CUDA, EngineUnavailableError
from ..plan.memory import OUTPUT_SHARE
from .nvml import Gpu, Gpus

# Share of a device's free memory; contexts, cuBLAS and the modules of the kernels need
# the rest. By arithmetic; not measured.
_POOL_SHARE = 0.9
# A GPU with less memory free than this share of the largest one is worth a warning.
_BUSY_SHARE = 0.5


def choose_pool(gpus: Sequence[Gpu]) -> dict[str, Any]:
    """Choose the memory pool of dask-cuda's workers, and when they begin to spill.

    ``rmm_pool_size = 0.9 free``, for the GPU with the least free memory, and
    ``device_memory_limit = 0.72 rmm_pool_size``: dask-cuda sees only the inputs and
    outputs of tasks. On an empty H100 of 79 GiB they are 71 and 51 GiB.
    """
    pool = int(_POOL_SHARE * min(gpu.free_bytes for gpu in gpus))
    # dask-cuda refuses a pool without RMM, and has none for memory the host shares.
    if find_spec("rmm") is None or pool == 0:
        return {}
    _warn_of_busy(gpus)
    return {
        "rmm_pool_size": pool,
        "rmm_allocator_external_lib_list": ["cupy"],
        "device_memory_limit": int(OUTPUT_SHARE * pool),
    }


def _warn_of_busy(gpus: Sequence[Gpu]) -> None:
    """Warn if one GPU is so full that all workers get a small pool."""
    busy = min(gpus, key=lambda gpu: gpu.free_bytes)
    if busy.free_bytes < _BUSY_SHARE * max(gpu.total_bytes for gpu in gpus):
        free, total = map(format_bytes, (busy.free_bytes, busy.total_bytes))
        warnings.warn(
            f"{busy.name} ({busy.uuid}) has {free} of {total} free, and no worker gets "
            "a larger pool; omit it from CUDA_VISIBLE_DEVICES if others use it",
            stacklevel=4,
        )


def find_cluster_class(found: Gpus) -> Any:
    """Import dask-cuda's cluster, or raise an error that names the extra to install."""
    try:
        from dask_cuda import LocalCUDACluster
    except ImportError as error:
        problem = f"there are {found.count}, but dask-cuda cannot be imported ({error})"
        remedy = f"Install it with {INSTALL_CUDA}; or use the cores"
        raise EngineUnavailableError(problem, remedy, "no-dask-cuda") from error
    return LocalCUDACluster
