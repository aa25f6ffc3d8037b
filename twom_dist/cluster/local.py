"""Workers of this machine: one for each GPU, or for each group of cores."""

import inspect
from contextlib import ExitStack
from importlib.util import find_spec
from multiprocessing import current_process
from typing import Any

from dask.system import CPU_COUNT
from dask.utils import format_bytes, parse_bytes

from ..errors import ArgumentError, EngineUnavailableError, MemoryLimitError, PlanError
from ..plan import Cluster
from ..plan.memory import MemoryBudget
from ..typing import as_integer
from . import cuda
from .nvml import Gpus, find_gpus

LOOPBACK = "127.0.0.1"
# A worker with less has no room for a tile beside its process.
LEAST_BYTES = MemoryBudget(kind="job").least_limit(0)

NO_GPUS = Gpus()
_START = (
    'In a script, start them under `if __name__ == "__main__":`; else run twom-dist '
    "doctor"
)

# Options by which dask-cuda takes UCX.
_OF_UCX = ("enable_tcp_over_ucx", "enable_infiniband", "enable_nvlink", "enable_rdmacm")

MemoryLimit = int | float | str | None


def choose_gpus(gpus: bool | None = None, n_workers: int | None = None) -> Gpus:
    """Choose the GPUs of this machine or none; parameters as in `local_cluster`."""
    found = NO_GPUS if gpus is False else find_gpus()
    if gpus and not found.visible:
        problem = f"workers on GPUs were asked for, and {found.reason}"
        remedy = "Look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use the cores"
        raise EngineUnavailableError(problem, remedy, "no-gpu")
    usable = find_spec("dask_cuda") is not None
    if gpus is None and not (usable and (n_workers or 1) <= len(found.visible)):
        found = NO_GPUS
    if any(gpu.slices for gpu in found.visible):
        # CUDA shows the first slice of all, and NVML the memory of the whole.
        parts = ",".join(x for gpu in found.visible for x in gpu.slices or [gpu.uuid])
        problem = "a GPU is cut into slices (MIG), and CUDA uses one that is not named"
        remedy = f"Name those to use in CUDA_VISIBLE_DEVICES, of {parts}"
        raise EngineUnavailableError(problem, remedy, "gpu-slices")
    return found


def choose_workers(
    n_workers: int | None = None,
    threads_per_worker: int | None = None,
    memory_limit: MemoryLimit = None,
    *,
    gpus: Gpus = NO_GPUS,
    cores: int = CPU_COUNT,
    memory_bytes: int | None = None,
) -> Cluster:
    """Choose the numbers that are not given, and refuse those that do not fit.

    `cores` and `memory_bytes` are those of this machine.
    """
    from distributed.deploy.utils import nprocesses_nthreads
    from distributed.system import MEMORY_LIMIT

    for name, count in (("workers", n_workers), ("threads", threads_per_worker)):
        if count is not None and (as_integer(count) or 0) < 1:
            problem = f"the number of {name} is {count!r}"
            raise PlanError(problem, "Give a positive integer", "not-positive")
    memory = memory_bytes or int(MEMORY_LIMIT)
    limit, num_gpus = _read_limit(memory_limit, memory), len(gpus.visible)
    room = max(1, memory // LEAST_BYTES)
    most = min(room, num_gpus or room)
    if n_workers is None:
        # Few processes, since the threads of one share its encoded tiles; but more
        # than one, since they share its interpreter as well.
        wanted, _ = nprocesses_nthreads(cores)
        if threads_per_worker is not None:
            wanted = max(1, cores // threads_per_worker)
        wanted = num_gpus or wanted
        n_workers = min(most, wanted, max(1, memory // limit) if limit else wanted)
    elif n_workers > most:
        has = gpus.count if most < room else f"{format_bytes(memory)} of memory"
        problem = f"{n_workers} workers do not fit this machine, which has {has}"
        raise PlanError(problem, f"Start at most {most}", "too-many-workers")
    if threads_per_worker is None:
        threads_per_worker = 1 if num_gpus else max(1, cores // n_workers)
    share = memory // n_workers if limit is None else limit
    return Cluster(n_workers, threads_per_worker, MemoryBudget(share or None))


def _read_limit(limit: MemoryLimit, memory_bytes: int) -> int | None:
    """Read a memory limit as dask does: a float up to 1 is a share of the memory."""
    if limit is None or limit == "auto":
        return None
    try:
        share = isinstance(limit, float) and limit <= 1
        found = int(limit * memory_bytes if share else parse_bytes(limit))
    except (TypeError, ValueError, OverflowError, AttributeError):
        problem = f"memory_limit={limit!r} is not a size"
        remedy = 'Give bytes, text such as "4 GiB", or a share of the memory up to 1.0'
        raise PlanError(problem, remedy, "memory-limit") from None
    if found != 0 and found < LEAST_BYTES:
        problem = f"workers of {format_bytes(found)} have no room for a tile"
        remedy = f"Give each at least {LEAST_BYTES >> 20} MiB, or 0 for no limit"
        raise MemoryLimitError(problem, remedy, "memory")
    return found


class RunningCluster:
    """Worker processes of this machine, which run until they are closed.

    Attributes
    ----------
    client : distributed.Client
        The current client, which a ``with`` block is given.
    """

    def __init__(self, client: Any, running: ExitStack, dashboard: bool) -> None:
        self.client, self._running, self._dashboard = client, running, dashboard

    def close(self) -> None:
        """Stop the workers and disconnect the client."""
        self._running.close()

    def __enter__(self) -> Any:
        return self.client

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        link = f", {self.client.dashboard_link}" if self._dashboard else ""
        return f"<{self.client.status} {self.client.cluster!r}{link}>"


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
) -> RunningCluster:
    """Start worker processes on this machine, for a ``with`` block or until closed.

    If there are enough GPUs and dask-cuda is installed, this is a
    `dask_cuda.LocalCUDACluster` with one worker for each GPU and a pool of device
    memory that CuPy shares; otherwise it is a `distributed.LocalCluster`. Whoever can
    connect can run programs as you: by default only this process and the workers can,
    which share temporary TLS credentials, on GPUs as well. UCX cannot encrypt and
    listens on every interface of this machine, whichever is named: with
    ``protocol="ucx", security=False`` everybody who reaches one can connect.

    Parameters
    ----------
    n_workers : int, optional
        Default: one for each GPU. Without GPUs: one for each core up to four, then
        about the square root of the number of cores, as far as the memory allows.
    threads_per_worker : int, optional
        Number of tasks that run side by side on a worker. Default: one on a GPU,
        otherwise as many as it takes to use all cores.
    memory_limit : int, float or str, optional
        Limit of the host memory of each worker, in the form that dask takes; 0 is no
        limit. Default: an equal share of the machine.
    gpus : bool, optional
        False never uses GPUs, True refuses to start without them. Default: use them if
        there are enough for the workers and dask-cuda is installed.
    dashboard : bool
        Whether to serve dask's dashboard, on port 8787 of the loopback address.
        Without it no web page of scheduler and workers answers.
    protocol : str, optional
        Default: "tls", or "tcp" with ``security=False``. A protocol that does not
        encrypt, such as "ucx", is refused without ``security=False``.
    interface : str, optional
        Listen on this network interface, such as "ib0", instead of the loopback.
    security : distributed.Security or bool, optional
        Default: True, temporary credentials of this cluster. False is what dask is
        configured to do, which is not to encrypt unless you set it.
    **options
        Options of the cluster class, which override what is chosen here: for example
        `rmm_pool_size` and `device_memory_limit` of dask-cuda, `local_directory`,
        `silence_logs`.

    Returns
    -------
    RunningCluster
        A context manager, which gives a `distributed.Client` and stops the workers at
        the end. In a notebook, keep it, and call its `close`.

    Raises
    ------
    EngineUnavailableError
        If GPUs or dask-cuda are asked for and missing, or if the worker processes do
        not start.
    ArgumentError
        For an option that neither this function nor the cluster class has.
    PlanError, MemoryLimitError
        If the machine has fewer GPUs than workers are asked for, or too little memory,
        if the memory limit leaves no room for a tile, and for such a protocol.

    Notes
    -----
    Workers are new processes that import the main script again: in a script, call
    `local_cluster` under ``if __name__ == "__main__":``. On GPUs, dask-cuda moves
    outputs to the host when they exceed 0.85 of the pool less what tasks of tiles of
    8192 x 8192 take, which is at most a quarter of it.

    Examples
    --------
    >>> import dask.array as da, twom_dist as td
    >>> A = da.ones((64, 64), chunks=32)
    >>> with td.local_cluster(n_workers=2) as client:  # doctest: +SKIP
    ...     print(td.gemm(A, A)[0, 0].compute())
    64.0
    """
    from distributed import Client, LocalCluster

    found = choose_gpus(gpus, n_workers)
    local = choose_workers(n_workers, threads_per_worker, memory_limit, gpus=found)
    protocol, security = _choose_transport(protocol, security, options)
    chosen = {
        "n_workers": local.workers,
        "threads_per_worker": local.threads,
        "memory_limit": local.memory.limit or 0,
        "host": None if interface else LOOPBACK,
        "interface": interface,
        "protocol": protocol,
        "security": security,
        "dashboard_address": f"{LOOPBACK}:{8787 if dashboard else 0}",
        # An address alone would serve it.
        "scheduler_kwargs": {"dashboard": dashboard},
    }
    make = LocalCluster
    if found.visible:
        make, used = cuda.find_cluster_class(found), found.visible[: local.workers]
        # Numbers would be CUDA's, which counts the fastest first, and not NVML's.
        chosen["CUDA_VISIBLE_DEVICES"] = [gpu.uuid for gpu in used]
        chosen |= cuda.choose_pool(used)
    _check_options(make, options)
    # As multiprocessing itself tells it.
    if getattr(current_process(), "_inheriting", False):
        # A line, and no traceback from every worker.
        raise SystemExit("twom_dist: local_cluster was called by a worker's import")
    with ExitStack() as started:
        try:
            cluster = started.enter_context(make(**chosen | options))
        except (RuntimeError, OSError) as error:  # what closing half a cluster raises
            reason = str(error.__cause__ or error).rstrip(".")
            problem = f"the worker processes did not start ({reason})"
            code = "workers-did-not-start"
            raise EngineUnavailableError(problem, _START, code) from None
        client = started.enter_context(Client(cluster))
        if not dashboard:
            from .pages import close_pages

            close_pages(client)
        return RunningCluster(client, started.pop_all(), dashboard)


def _check_options(make: Any, options: dict[str, Any]) -> None:
    """Refuse what neither the cluster class nor the workers behind it take."""
    from distributed import LocalCluster, Nanny, Worker

    *own, _ = inspect.signature(local_cluster).parameters
    takers = map(inspect.signature, (make, LocalCluster, Nanny, Worker))
    known = {name for taker in takers for name in taker.parameters}
    for name in options.keys() - (known - {"asynchronous"}):
        problem = f"local_cluster takes no {name!r}"
        remedy = f"It takes {', '.join(own)}, and the options of dask's {make.__name__}"
        raise ArgumentError(problem, remedy, "unknown-option")


def _choose_transport(
    protocol: str | None, security: Any, options: dict[str, Any]
) -> tuple[str | None, Any]:
    """Choose temporary credentials, and refuse what does not encrypt without a word.

    Without a protocol dask takes tls where there are credentials, and tcp elsewhere.
    """
    asked = protocol or _implied_protocol(options)
    if asked and not asked.startswith(("tls", "wss")) and security is not False:
        problem = f"the protocol {asked!r} does not encrypt"
        remedy = "Leave it out, or give security=False as well"
        if asked.startswith("ucx"):
            remedy += ", with which every network interface is open to everybody"
        raise PlanError(problem, remedy, "unencrypted-protocol")
    return protocol, (security is None or security) or None


def _implied_protocol(options: dict[str, Any]) -> str | None:
    """Return the protocol that dask takes by these options, if none is named."""
    if any(options.get(name) for name in _OF_UCX):
        return "ucx"
    scheme, found, _ = str(options.get("host")).partition("://")
    return scheme if found else None
