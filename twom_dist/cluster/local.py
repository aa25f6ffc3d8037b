"""Workers of this machine: one for each GPU, or for each group of cores."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dask.utils import format_bytes, parse_bytes

from ..errors import EngineUnavailableError, PlanError
from ..plan import Cluster
from . import cuda
from .limits import INTERPRETER_BYTES, SPILL, round_up
from .nvml import Gpus, find_gpus

LOOPBACK = "127.0.0.1"
_DASHBOARD_PORT = 8787
# A worker with less has no room for a tile beside its process.
LEAST_BYTES = round_up(INTERPRETER_BYTES / SPILL)

NO_GPUS = Gpus()

MemoryLimit = int | float | str | None


@dataclass(frozen=True)
class Machine:
    """What this process may use: cores, memory and GPUs to start workers on."""

    cores: int
    memory_bytes: int
    gpus: Gpus = NO_GPUS


@dataclass(frozen=True)
class LocalWorkers:
    """Worker processes to start, alike; a memory limit of 0 is none."""

    workers: int
    threads: int
    memory_bytes: int
    gpus: Gpus = NO_GPUS

    @property
    def cluster(self) -> Cluster:
        """What the planner needs to know."""
        return Cluster(self.workers, self.threads, self.memory_bytes or None)


def find_machine(gpus: bool | None = None) -> Machine:
    """Look at this machine; `gpus` as in `local_cluster`."""
    from dask.system import CPU_COUNT
    from distributed.system import MEMORY_LIMIT

    found = NO_GPUS if gpus is False else find_gpus()
    if gpus and not found.visible:
        raise EngineUnavailableError(
            f"workers on GPUs were asked for, and {found.reason}",
            "Look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use the cores",
            "no-gpu",
        )
    if gpus is None and find_spec("dask_cuda") is None:
        found = NO_GPUS
    return Machine(CPU_COUNT, int(MEMORY_LIMIT), found)


def choose_workers(
    machine: Machine,
    n_workers: int | None = None,
    threads_per_worker: int | None = None,
    memory_limit: MemoryLimit = None,
) -> LocalWorkers:
    """Choose what is not given, within the machine; refuse what does not fit it."""
    for name, count in (("workers", n_workers), ("threads", threads_per_worker)):
        if count is not None and count < 1:
            problem = f"the number of {name} is {count}"
            raise PlanError(problem, "Give a positive integer", "not-positive")
    memory = machine.memory_bytes
    limit = _read_limit(memory_limit, memory)
    most, why, remedy = _find_most(machine)
    if n_workers is None:
        wanted = _count_workers(machine, threads_per_worker)
        n_workers = min(most, wanted, max(1, memory // limit) if limit else wanted)
    elif n_workers > most:
        problem = f"{n_workers} workers do not fit this machine: {why}"
        raise PlanError(problem, remedy, "too-many-workers")
    if threads_per_worker is None:
        on_cores = not machine.gpus.visible
        threads_per_worker = max(1, machine.cores // n_workers) if on_cores else 1
    share = memory // n_workers if limit is None else limit
    return LocalWorkers(n_workers, threads_per_worker, share, machine.gpus)


def _find_most(machine: Machine) -> tuple[int, str, str]:
    """Return the largest number of workers that fits, what bounds it, and a remedy."""
    room = max(1, machine.memory_bytes // LEAST_BYTES)
    count = len(machine.gpus.visible)
    if 0 < count < room:
        why = f"it has {machine.gpus.count}, and each takes one worker"
        return count, why, f"Start at most {count}, or use the cores"
    memory, least = map(format_bytes, (machine.memory_bytes, LEAST_BYTES))
    why = f"it has {memory} of memory, and each needs {least}"
    return room, why, f"Start at most {room}"


def _count_workers(machine: Machine, threads: int | None) -> int:
    """One for each GPU; without, as many as use all cores."""
    from distributed.deploy.utils import nprocesses_nthreads

    if machine.gpus.visible:
        return len(machine.gpus.visible)
    if threads is not None:
        return max(1, machine.cores // threads)
    # Few processes: the threads of one share its encoded tiles. Not one alone: they
    # share an interpreter as well.
    return int(nprocesses_nthreads(machine.cores)[0])


def _read_limit(limit: MemoryLimit, memory_bytes: int) -> int | None:
    """Read a memory limit as dask does: a float up to 1 is a share of the memory."""
    if limit is None or limit == "auto":
        return None
    if isinstance(limit, float) and limit <= 1:
        return int(limit * memory_bytes)
    return int(parse_bytes(limit))


def check_dashboard() -> None:
    """Refuse a dashboard without the package that draws it."""
    if find_spec("bokeh") is None:
        raise EngineUnavailableError(
            "the dashboard needs bokeh, which is not installed",
            "Run pip install bokeh",
            "no-bokeh",
        )


@contextmanager
def local_cluster(
    *,
    n_workers: int | None = None,
    threads_per_worker: int | None = None,
    memory_limit: MemoryLimit = None,
    gpus: bool | None = None,
    dashboard: bool = False,
    protocol: str | None = None,
    interface: str | None = None,
    security: Any = None,
    **options: Any,
) -> Iterator[Any]:
    """Start worker processes on this machine, and stop them at the end.

    Where there are GPUs and dask-cuda is installed, a `dask_cuda.LocalCUDACluster` with
    a worker for each and a pool of device memory that CuPy shares; else a
    `distributed.LocalCluster`. Only this machine can reach it, unless `interface` is
    given.

    Parameters
    ----------
    n_workers : int, optional
        Default: one for each GPU, or else one for each core up to four, and then about
        the root of the number of cores; no more than the memory has room for.
    threads_per_worker : int, optional
        Tasks that run side by side on a worker. Default: one on a GPU, else so many
        that the workers use all cores.
    memory_limit : int, float or str, optional
        Host memory of each worker, as dask takes it; 0 is no limit. Default: an equal
        share of the machine.
    gpus : bool, optional
        False: never; True: refuse without. Default: where they can be used.
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
        For ``gpus=True`` without GPUs or without dask-cuda, and for a dashboard without
        bokeh.
    PlanError
        For more workers than the machine has GPUs, or memory, for.

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
    from distributed import Client, LocalCluster

    local = choose_workers(
        find_machine(gpus), n_workers, threads_per_worker, memory_limit
    )
    if dashboard:
        check_dashboard()
    chosen = {
        "n_workers": local.workers,
        "threads_per_worker": local.threads,
        "memory_limit": local.memory_bytes,
        "host": None if interface else LOOPBACK,
        "interface": interface,
        "protocol": protocol,
        "security": security,
        "dashboard_address": f"{LOOPBACK}:{_DASHBOARD_PORT if dashboard else 0}",
        # An address alone would serve it; what remains is /health and the like.
        "scheduler_kwargs": {"dashboard": dashboard},
    }
    make = LocalCluster
    if local.gpus.visible:
        make = cuda.find_cluster_class(local.gpus)
        chosen |= cuda.choose_pool(local.gpus)
        if protocol is None and security is None:
            chosen["protocol"] = cuda.choose_protocol()
    with make(**chosen | options) as cluster, Client(cluster) as client:
        yield client
