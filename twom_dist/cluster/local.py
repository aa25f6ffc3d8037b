"""A cluster of this machine: a worker for each GPU, or for each group of cores."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ..errors import EngineUnavailableError
from . import cuda
from .nvml import Gpus, find_gpus

LOOPBACK = "127.0.0.1"
_DASHBOARD_PORT = 8787

MemoryLimit = int | float | str | None


@contextmanager
def local_cluster(
    *,
    n_workers: int | None = None,
    threads_per_worker: int | None = None,
    memory_limit: MemoryLimit = None,
    gpus: bool | None = None,
    gpu_share: int | None = None,
    dashboard: bool = False,
    protocol: str | None = None,
    interface: str | None = None,
    security: Any = None,
    **options: Any,
) -> Iterator[Any]:
    """Start worker processes on this machine, and stop them at the end.

    Where NVML finds GPUs, a `dask_cuda.LocalCUDACluster` with a worker for each and a
    pool of device memory that CuPy shares; else a `distributed.LocalCluster`. Only this
    machine can reach it, unless `interface` is given.

    Parameters
    ----------
    n_workers : int, optional
        Default: one for each GPU, or about the root of the number of cores, and up to
        four one for each core.
    threads_per_worker : int, optional
        Tasks that run side by side on a worker. Default: one on a GPU, else so many
        that the workers use all cores.
    memory_limit : int, float or str, optional
        Of the host's memory, for each worker, as dask takes it; 0 is no limit.
        Default: an equal share.
    gpus : bool, optional
        False: never; True: refuse without. Default: where there are any.
    gpu_share : int, optional
        So many workers on each GPU, for tests: each takes an equal share of its memory,
        and what they send each other goes through the host.
    dashboard : bool
        Whether to serve dask's dashboard, on port 8787 of the loopback address.
    protocol : str, optional
        Default: "ucx" for GPUs where distributed-ucxx is installed, else "tcp"; with
        `security`, what it asks for.
    interface : str, optional
        Listen on this network interface, such as "ib0", instead of loopback.
    security : distributed.Security or bool, optional
        True makes temporary certificates.
    **options
        Passed on to the cluster, and above what is chosen here: `rmm_pool_size` and
        `device_memory_limit` of dask-cuda, `local_directory`, `silence_logs`.

    Yields
    ------
    distributed.Client
        Connected, and the current client; its `cluster` is the cluster.

    Raises
    ------
    EngineUnavailableError
        For GPUs without dask-cuda, or ``gpus=True`` without GPUs.
    ValueError
        For arguments that exclude each other.

    Notes
    -----
    Workers are new processes that import the main script again: in a script, call it
    under ``if __name__ == "__main__":``.

    On GPUs, dask-cuda moves outputs of tasks to the host when they exceed the pool less
    `twom-dist.workspace-bytes`, which products take beside them.

    Examples
    --------
    >>> import dask.array as da, twom_dist as td
    >>> A = da.ones((64, 64), chunks=32)
    >>> with td.local_cluster(n_workers=2) as client:  # doctest: +SKIP
    ...     print(td.gemm(A, A)[0, 0].compute())
    64.0
    """
    _check(n_workers, threads_per_worker, gpus, gpu_share, dashboard)
    found = Gpus() if gpus is False else find_gpus()
    if not found.visible and (gpus or gpu_share):
        given = "gpus=True" if gpus else f"gpu_share={gpu_share}"
        raise EngineUnavailableError(
            f"{given} given and {found.reason}; look at nvidia-smi and at "
            "CUDA_VISIBLE_DEVICES, or leave it out"
        )
    given_options: dict[str, Any] = {
        "host": None if interface else LOOPBACK,
        "interface": interface,
        "protocol": protocol,
        "security": security,
        "dashboard_address": f"{LOOPBACK}:{_DASHBOARD_PORT if dashboard else 0}",
        # An address alone would serve it; what remains is /health and the like.
        "scheduler_kwargs": {"dashboard": dashboard},
    }
    if found.visible and not gpu_share:
        chosen = cuda.choose_options(found, n_workers, threads_per_worker, memory_limit)
        if protocol is None and security is None:
            given_options["protocol"] = "ucx" if cuda.has_ucx() else "tcp"
        cluster = cuda.start(found, given_options | chosen | options)
    elif gpu_share:
        count = gpu_share * len(found.visible)
        chosen = _choose_options(count, threads_per_worker or 1, memory_limit)
        cluster = cuda.start_shared(found, gpu_share, given_options | chosen | options)
    else:
        chosen = _choose_options(n_workers, threads_per_worker, memory_limit)
        cluster = _start(given_options | chosen | options)
    with cluster as client:
        yield client


def _check(
    n_workers: int | None,
    threads_per_worker: int | None,
    gpus: bool | None,
    gpu_share: int | None,
    dashboard: bool,
) -> None:
    """Refuse what can be told without looking at the machine."""
    counts = {
        "n_workers": n_workers,
        "threads_per_worker": threads_per_worker,
        "gpu_share": gpu_share,
    }
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"{name}={count} given; it is a positive integer")
    if gpu_share is not None and gpus is False:
        raise ValueError(
            f"gpu_share={gpu_share} and gpus=False given; give one of them"
        )
    if gpu_share is not None and n_workers is not None:
        raise ValueError(
            f"gpu_share={gpu_share} and n_workers={n_workers} given; the first says "
            "how many workers there are on each GPU: leave n_workers out"
        )
    if dashboard and find_spec("bokeh") is None:
        raise ImportError(
            "dashboard=True needs bokeh, which is not installed: pip install bokeh"
        )


def _choose_options(
    n_workers: int | None, threads: int | None, memory_limit: MemoryLimit
) -> dict[str, Any]:
    """Share cores and memory out evenly; a task of the CPU engine takes one core."""
    from dask.system import CPU_COUNT
    from distributed.deploy.utils import nprocesses_nthreads
    from distributed.system import MEMORY_LIMIT

    if n_workers is None and threads is None:
        # Few processes: the threads of one share its encoded tiles. Not one alone: they
        # share an interpreter as well.
        n_workers, threads = nprocesses_nthreads(CPU_COUNT)
    elif n_workers is None:
        n_workers = max(1, CPU_COUNT // (threads or 1))
    elif threads is None:
        threads = max(1, CPU_COUNT // n_workers)
    if memory_limit is None:
        memory_limit = int(MEMORY_LIMIT) // n_workers
    return {
        "n_workers": n_workers,
        "threads_per_worker": threads,
        "memory_limit": memory_limit,
    }


@contextmanager
def _start(options: dict[str, Any]) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client
