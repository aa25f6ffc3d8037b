"""Workers on this machine: one for each GPU, or for each group of cores."""

import inspect
from contextlib import ExitStack
from multiprocessing import current_process
from typing import Any

from dask.system import CPU_COUNT
from dask.utils import format_bytes

from ..errors import ArgumentError, EngineUnavailableError, MemoryLimitError, PlanError
from ..plan import Cluster
from ..plan.cluster import DEVICE_THREADS, MemoryBudget, read_limit
from ..plan.show import name_count
from ..typing import as_integer
from .devices import choose_pool, count_gpus
from .machine import machine_memory

LOOPBACK = "127.0.0.1"
# A worker with less memory has no room for a tile beside its process.
LEAST_BYTES = MemoryBudget(kind="job").least_limit(0)

_START = (
    'In a script, start them under `if __name__ == "__main__":`; otherwise run '
    "twom-dist doctor"
)

_FOLDER = "local_directory"
# Options with which dask-cuda uses UCX.
_OF_UCX = ("enable_tcp_over_ucx", "enable_infiniband", "enable_nvlink", "enable_rdmacm")

MemoryLimit = int | float | str | None


def choose_gpus(gpus: bool | None = None, n_workers: int | None = None) -> int:
    """Choose how many GPUs to use, or none; the parameters are `local_cluster`'s."""
    found, reason = (0, "") if gpus is False else count_gpus()
    if gpus and not found:
        problem = f"workers on GPUs were requested, but {reason}"
        remedy = "Check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the cores"
        raise EngineUnavailableError(problem, remedy, "no-gpu")
    return found if gpus or (n_workers or 1) <= found else 0


def choose_workers(
    n_workers: int | None = None,
    threads_per_worker: int | None = None,
    memory_limit: MemoryLimit = None,
    *,
    gpus: int = 0,
    cores: int = CPU_COUNT,
    memory_bytes: int | None = None,
) -> Cluster:
    """Choose the numbers that are not given; refuse given ones that do not fit.

    `gpus`, `cores` and `memory_bytes` describe this machine.
    """
    from distributed.deploy.utils import nprocesses_nthreads

    for name, count in (("workers", n_workers), ("threads", threads_per_worker)):
        if count is not None and (as_integer(count) or 0) < 1:
            problem = f"the number of {name} is {count!r}"
            raise PlanError(problem, "Give a positive integer", "not-positive")
    memory = memory_bytes or machine_memory()
    limit = read_limit(memory_limit, memory)
    _check_limit(limit or 0)
    room = max(1, memory // LEAST_BYTES)
    most = min(room, gpus or room)
    if n_workers is None:
        # Few processes, whose threads share encoded tiles, but also an interpreter.
        wanted, _ = nprocesses_nthreads(cores)
        if threads_per_worker is not None:
            wanted = max(1, cores // threads_per_worker)
        wanted = gpus or wanted
        n_workers = min(most, wanted, max(1, memory // limit) if limit else wanted)
    elif n_workers > most:
        has = f"{format_bytes(memory)} of memory"
        if most < room:
            has = name_count(gpus, "GPU")
        problem = f"{n_workers} workers do not fit on this machine, which has {has}"
        raise PlanError(problem, f"Start at most {most}", "too-many-workers")
    if threads_per_worker is None:
        own = max(1, cores // n_workers)
        threads_per_worker = DEVICE_THREADS if gpus else own
    share = memory // n_workers if limit is None else limit
    return Cluster(n_workers, threads_per_worker, MemoryBudget(share or None))


def _check_limit(limit: int) -> None:
    """Refuse a limit that leaves no room for a tile; 0 is none."""
    if limit and limit < LEAST_BYTES:
        budget = MemoryBudget(limit, "job")
        sizes = limit, budget.most_bytes, budget.taken_bytes
        own, most, taken = map(format_bytes, sizes)
        why = f"dask spills at {most}, and the process takes {taken}"
        problem = f"workers of {own} have no room for a tile ({why})"
        remedy = f"Give each more than {LEAST_BYTES >> 20} MiB"
        raise MemoryLimitError(problem, remedy, "memory")


class RunningCluster:
    """Worker processes on this machine, which run until they are closed.

    `client`: the current client, which a ``with`` block receives.
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

    Parameters
    ----------
    n_workers : int, optional
        Default: one for each GPU. Without GPUs: one for each core up to four, then
        about the square root of the number of cores, as far as memory allows.
    threads_per_worker : int, optional
        Number of tasks that run at once on a worker. Default: two on a GPU, each on its
        own stream, otherwise as many as it takes to use all cores.
    memory_limit : int, float or str, optional
        Limit on each worker's host memory, in any form that dask accepts; 0 means no
        limit. Default: an equal share of the machine's memory.
    gpus : bool, optional
        False never uses GPUs; True refuses to start without them. Default: use them if
        there are enough for the workers and dask-cuda is installed.
    dashboard : bool, optional
        Serve dask's dashboard on port 8787 of the loopback address. Default: no web
        pages are served.
    protocol : str, optional
        Default: "tls", or "tcp" with ``security=False``. A protocol that does not
        encrypt, such as "ucx", is refused without ``security=False``.
    interface : str, optional
        Listen on this network interface, such as "ib0", instead of the loopback.
    security : distributed.Security or bool, optional
        Default: True: temporary credentials for this cluster. False uses dask's
        configuration, which by default does not encrypt.
    **options
        Options of the cluster class, which override those chosen here: for example
        `silence_logs`, and dask-cuda's `rmm_pool_size` and `device_memory_limit`. In
        `local_directory`, workers spill into a new folder that no other user can enter;
        default: dask's setting ``temporary-directory``, or ``TMPDIR``.

    Returns
    -------
    RunningCluster
        A context manager, which yields a `distributed.Client` and stops the workers at
        the end. In a notebook, keep it and call its `close`.

    Raises
    ------
    EngineUnavailableError
        If requested GPUs or dask-cuda are missing, or if workers do not start.
    ArgumentError
        If neither this function nor the cluster class has an option of that name.
    PlanError, MemoryLimitError
        If the machine has too few GPUs or too little memory for the workers, if the
        memory limit leaves no room for a tile, or if the protocol does not encrypt.

    See Also
    --------
    doctor : Check the workers of a client.

    Notes
    -----
    Workers are new processes that import the main script again: in a script, call
    `local_cluster` under ``if __name__ == "__main__":``.

    With enough GPUs and dask-cuda this is a `dask_cuda.LocalCUDACluster` of one worker
    per GPU, with a pool of device memory that CuPy shares; otherwise it is a
    `distributed.LocalCluster`. dask-cuda moves outputs to the host once they exceed
    0.72 of the pool, because tasks need the rest.

    Anybody who can connect can run programs as you. By default only this process and
    the workers can, because they share temporary TLS credentials. UCX does not encrypt,
    and listens on every interface of this machine: with
    ``protocol="ucx", security=False`` anybody who reaches one of these interfaces can
    connect.

    Examples
    --------
    >>> import dask.array as da, twom_dist as td
    >>> A = da.ones((64, 64), chunks=32)
    >>> with td.local_cluster(n_workers=2) as client:  # doctest: +SKIP
    ...     print(td.gemm(A, A)[0, 0].compute())
    64.0
    """
    from distributed import Client, LocalCluster

    from .startup import close_pages, guarded_start, private_folder

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
    }
    make: Any = LocalCluster
    if found:
        from dask_cuda import LocalCUDACluster

        make = LocalCUDACluster
        chosen |= choose_pool()
    _check_options(make, options)
    # multiprocessing itself tells by this attribute that a child is starting.
    if getattr(current_process(), "_inheriting", False):
        # One line instead of a traceback from every worker.
        raise SystemExit("twom_dist: a worker called local_cluster as it was imported")
    with ExitStack() as started:
        folder = started.enter_context(private_folder(options.pop(_FOLDER, None)))
        # An address alone would start the dashboard.
        of_scheduler = {_FOLDER: folder, "dashboard": dashboard}
        of_scheduler |= options.pop("scheduler_kwargs", {})
        chosen |= {_FOLDER: folder, "scheduler_kwargs": of_scheduler}
        try:
            with guarded_start():
                cluster = started.enter_context(make(**chosen | options))
        except (RuntimeError, OSError) as error:  # closing half a cluster raises both
            reason = str(error.__cause__ or error).rstrip(".")
            problem = f"the worker processes did not start ({reason})"
            code = "workers-did-not-start"
            raise EngineUnavailableError(problem, _START, code) from None
        client = started.enter_context(Client(cluster))
        if not dashboard:
            close_pages(client)
        return RunningCluster(client, started.pop_all(), dashboard)


def _check_options(make: Any, options: dict[str, Any]) -> None:
    """Refuse options that neither the cluster class nor its workers take."""
    from distributed import LocalCluster, Nanny, Worker

    *own, _ = inspect.signature(local_cluster).parameters
    takers = map(inspect.signature, (make, LocalCluster, Nanny, Worker))
    known = {name for taker in takers for name in taker.parameters}
    for name in options.keys() - (known - {"asynchronous"}):
        problem = f"local_cluster has no option {name!r}"
        remedy = f"It takes {', '.join(own)}, and the options of dask's {make.__name__}"
        raise ArgumentError(problem, remedy, "unknown-option")


def _choose_transport(
    protocol: str | None, security: Any, options: dict[str, Any]
) -> tuple[str | None, Any]:
    """Choose temporary credentials; refuse protocols that silently do not encrypt.

    Without a protocol dask takes tls if there are credentials, otherwise tcp.
    """
    scheme, found, _ = str(options.get("host")).partition("://")
    # What these options imply if none is named.
    implied = "ucx" if any(map(options.get, _OF_UCX)) else scheme if found else None
    asked = protocol or implied
    if asked and not asked.startswith(("tls", "wss")) and security is not False:
        problem = f"the protocol {asked!r} does not encrypt"
        remedy = "Omit it, or give security=False as well"
        if asked.startswith("ucx"):
            remedy += ", which opens every network interface to everybody"
        raise PlanError(problem, remedy, "unencrypted-protocol")
    return protocol, (security is None or security) or None
