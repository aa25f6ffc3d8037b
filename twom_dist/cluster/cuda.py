"""Workers on GPUs: dask-cuda with one on each, or several on each for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from ..errors import EngineUnavailableError
from .nvml import Gpus

# Of a device's free memory; contexts, cuBLAS and the modules of the kernels need the
# rest. By arithmetic; not measured.
_POOL_SHARE = 0.9
# Of the pool: what outputs of tasks may take at least before they are spilled.
_SMALLEST_OUTPUT_SHARE = 0.1
# Of a device, for all workers that share it: each has a context, of some 0.5 GB.
_SHARED_PERCENT = 80
_START_SECONDS = 60


def has_ucx() -> bool:
    """Tell whether distributed-ucxx is installed, without loading it."""
    return bool(entry_points(group="distributed.comm.backends", name="ucx"))


def choose_options(
    found: Gpus,
    n_workers: int | None,
    threads: int | None,
    memory_limit: int | float | str | None,
) -> dict[str, Any]:
    """Choose the settings of dask-cuda."""
    if n_workers is not None and n_workers > len(found.visible):
        raise ValueError(
            f"n_workers={n_workers} given and {found.count} visible; a GPU has one "
            "worker: leave n_workers out, or share each GPU with gpu_share"
        )
    options: dict[str, Any] = {
        "n_workers": n_workers,
        "threads_per_worker": threads or 1,
        "memory_limit": "auto" if memory_limit is None else memory_limit,
    }
    pool = int(_POOL_SHARE * min(gpu.free_bytes for gpu in found.visible))
    # dask-cuda refuses a pool without RMM, and knows none of memory the host shares.
    if find_spec("rmm") is None or pool == 0:
        return options
    from ..kernels.cuda.workspace import workspace_bytes

    # What dask-cuda cannot see, inside a task, must fit beside what it can.
    workspace = max(workspace_bytes(gpu.total_bytes) for gpu in found.visible)
    return options | {
        "rmm_pool_size": pool,
        "rmm_allocator_external_lib_list": ["cupy"],
        "device_memory_limit": max(
            pool - workspace, int(_SMALLEST_OUTPUT_SHARE * pool)
        ),
    }


@contextmanager
def start(found: Gpus, options: dict[str, Any]) -> Iterator[Any]:
    """Start dask-cuda, or name the extra that installs it."""
    from distributed import Client

    try:
        from dask_cuda import LocalCUDACluster
    except ImportError as error:
        raise EngineUnavailableError(
            f"NVML finds {found.count} and dask-cuda cannot be imported ({error}); "
            f"install it with pip install 'twom-dist[{found.extra}]', or start workers "
            "on the cores with gpus=False"
        ) from error
    with LocalCUDACluster(**options) as cluster, Client(cluster) as client:
        yield client


@contextmanager
def start_shared(found: Gpus, share: int, options: dict[str, Any]) -> Iterator[Any]:
    """Start several workers on each GPU, each with the environment of its own."""
    from distributed import Client, LocalCluster

    # 0 % would be no limit at all.
    percent = max(1, _SHARED_PERCENT // share)
    count = options["n_workers"]
    with (
        _share_workspace(found, percent),
        LocalCluster(**options | {"n_workers": 0}) as cluster,
        Client(cluster) as client,
    ):
        template = cluster.new_spec
        for index in range(count):
            env = {
                "CUDA_VISIBLE_DEVICES": found.visible[index // share].device,
                "CUPY_GPU_MEMORY_LIMIT": f"{percent}%",
            }
            worker_options = {**template["options"], "env": env}
            cluster.new_spec = {**template, "options": worker_options}
            cluster.scale(index + 1)
        client.wait_for_workers(count, timeout=_START_SECONDS)
        yield client


@contextmanager
def _share_workspace(found: Gpus, percent: int) -> Iterator[None]:
    """Cut the workspace as the memory; workers inherit the settings of the client."""
    import dask

    from ..config import setting
    from ..kernels.cuda.workspace import workspace_bytes

    own = min(gpu.total_bytes for gpu in found.visible) * percent // 100
    if setting("workspace-bytes") is not None or own == 0:
        yield
        return
    with dask.config.set({"twom-dist.workspace-bytes": workspace_bytes(own)}):
        yield
