"""What dask-cuda is asked for: a pool of device memory, and how blocks travel."""

from importlib.util import find_spec
from typing import Any

from ..errors import EngineUnavailableError
from .nvml import Gpus

INSTALL = "pip install 'twom-dist[cuda12]', or cuda13 as the driver is"
# Of a device's free memory; contexts, cuBLAS and the modules of the kernels need the
# rest. By arithmetic; not measured.
_POOL_SHARE = 0.9
# Of the pool: what outputs of tasks may take at least before they are spilled.
_SMALLEST_OUTPUT_SHARE = 0.1


def choose_pool(found: Gpus) -> dict[str, Any]:
    """Choose the memory pool of dask-cuda, and where it begins to spill."""
    pool = int(_POOL_SHARE * min(gpu.free_bytes for gpu in found.visible))
    # dask-cuda refuses a pool without RMM, and knows none of memory the host shares.
    if find_spec("rmm") is None or pool == 0:
        return {}
    from ..kernels.cuda.workspace import workspace_bytes

    # What dask-cuda cannot see, inside a task, must fit beside what it can.
    workspace = max(workspace_bytes(gpu.total_bytes) for gpu in found.visible)
    outputs = max(pool - workspace, int(_SMALLEST_OUTPUT_SHARE * pool))
    return {
        "rmm_pool_size": pool,
        "rmm_allocator_external_lib_list": ["cupy"],
        "device_memory_limit": outputs,
    }


def find_cluster_class(found: Gpus) -> Any:
    """Import dask-cuda's cluster, or name the extra that installs it."""
    try:
        from dask_cuda import LocalCUDACluster
    except ImportError as error:
        problem = f"there are {found.count}, and dask-cuda cannot be imported ({error})"
        remedy = f"Install it with {INSTALL}, or use the cores"
        raise EngineUnavailableError(problem, remedy, "no-dask-cuda") from error
    return LocalCUDACluster
