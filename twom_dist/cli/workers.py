"""Where a job runs: a scheduler that is there, a local cluster, or this process."""

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from ..plan import Cluster
from .failures import RefusedError, undisturbed

LOOPBACK = "127.0.0.1"
_LOOK_SECONDS = 0.1
# What the options call them -> what dask does.
_SECURITY_FIELDS = {
    "tls_ca_file": "tls_ca_file",
    "tls_cert": "tls_client_cert",
    "tls_key": "tls_client_key",
}


@dataclass(frozen=True)
class LocalWorkers:
    """Workers to start here; none of them: threads of this process."""

    workers: int
    threads: int
    memory_bytes: int
    dashboard: bool
    engine: str = "cpu"

    @property
    def on_gpus(self) -> bool:
        """Whether they are processes with a GPU each."""
        return self.workers > 0 and self.engine == "cuda"

    @property
    def cluster(self) -> Cluster:
        """What the planner needs to know."""
        return Cluster(max(1, self.workers), self.threads, self.memory_bytes)


def choose_local_workers(
    workers: int | None,
    threads_per_worker: int | None,
    memory_limit: int | None,
    dashboard: bool,
    engine: str = "cpu",
) -> LocalWorkers:
    """Default: a single-threaded process for each GPU, or core, sharing the memory."""
    from dask.system import CPU_COUNT
    from distributed.system import MEMORY_LIMIT

    if dashboard:
        _check_dashboard(workers)
    if engine in ("auto", "cuda") and workers != 0:
        engine, workers = _choose_gpus(engine, workers)
    if workers is None:
        workers = max(1, CPU_COUNT // (threads_per_worker or 1))
    if threads_per_worker is None:
        threads_per_worker = CPU_COUNT if workers == 0 else 1
    _check_count(workers, int(MEMORY_LIMIT))
    if memory_limit is None:
        memory_limit = int(MEMORY_LIMIT) // max(1, workers)
    return LocalWorkers(workers, threads_per_worker, memory_limit, dashboard, engine)


def _choose_gpus(engine: str, workers: int | None) -> tuple[str, int | None]:
    """Return cuda and a number of workers where this machine has GPUs for them."""
    from importlib.util import find_spec

    from ..cluster.nvml import find_gpus
    from ..jobs.devices import HERE, choose_engine, find_device

    gpus = find_gpus()
    count = len(gpus.visible)
    fits = count > 0 and (workers or 1) <= count
    if engine == "auto" and not (fits and find_spec("dask_cuda")):
        return "cpu", workers
    engine = choose_engine(engine, {HERE: find_device(measure=False)})
    if engine == "cuda" and not fits:
        raise RefusedError(
            f"--workers {workers} given and {gpus.count} visible; a GPU has one "
            "worker: give fewer, or --engine cpu"
            if count
            else f"--engine cuda given and {gpus.reason}; look at nvidia-smi"
        )
    return engine, workers or count if engine == "cuda" else workers


def _check_count(workers: int, memory_bytes: int) -> None:
    """Refuse more processes than the memory here has room for, without any tile."""
    from ..cluster.limits import INTERPRETER_BYTES
    from ..plan.record import format_bytes

    most = max(1, memory_bytes // INTERPRETER_BYTES)
    if workers > most:
        raise RefusedError(
            f"--workers {workers} given; the {format_bytes(memory_bytes)} of memory "
            f"here are room for {most}, as a process takes "
            f"{format_bytes(INTERPRETER_BYTES)} before any tile: give fewer"
        )


def _check_dashboard(workers: int | None) -> None:
    from importlib.util import find_spec

    if workers == 0:
        raise RefusedError("--dashboard needs worker processes; leave out --workers 0")
    if find_spec("bokeh") is None:
        raise RefusedError(
            "--dashboard needs bokeh, which is not installed: pip install bokeh"
        )


def find_scheduler(
    scheduler: str | None,
    scheduler_file: str | None,
    timeout_seconds: float,
    **local: Any,
) -> str | None:
    """Return the address of the scheduler to use, None for workers of our own.

    A scheduler that starts at the same time may not have written its file yet.
    """
    # --workers 0 is one of them.
    flags = [name for name, x in local.items() if x is not None and x is not False]
    if scheduler is not None and scheduler_file is not None:
        raise RefusedError("--scheduler and --scheduler-file given; give one of them")
    if scheduler is None and scheduler_file is None:
        return None
    if flags:
        option = "--" + flags[0].replace("_", "-")
        raise RefusedError(
            f"a scheduler and {option} given; a scheduler has its own workers: leave "
            "one of the two out"
        )
    if scheduler is not None:
        return scheduler
    assert scheduler_file is not None
    end = monotonic() + timeout_seconds
    while not _is_written(scheduler_file) and monotonic() < end:
        sleep(_LOOK_SECONDS)
    try:
        with open(scheduler_file, encoding="utf-8") as stream:
            return str(json.load(stream)["address"])
    except FileNotFoundError as error:
        raise RefusedError(
            f"there is no scheduler file {scheduler_file!r} after "
            f"{timeout_seconds:g} s; start the scheduler with --scheduler-file, or "
            "wait longer with --timeout"
        ) from error
    except OSError as error:
        raise RefusedError(
            f"the scheduler file {scheduler_file!r} cannot be read "
            f"({error.strerror}); change its permissions or name another file"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            f"{scheduler_file!r} is no scheduler file; give the one that `dask "
            "scheduler --scheduler-file` writes"
        ) from error


def _is_written(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False


def choose_security(address: str | None, **files: str | None) -> Any:
    """Return what a dask client encrypts with, checked; None: nothing.

    Where a file is not given, the one that dask is configured with counts.
    """
    given = {name: path for name, path in files.items() if path is not None}
    option = "--" + next(iter(given), "").replace("_", "-")
    if address is None:
        if given:
            raise RefusedError(f"{option} given without a scheduler; leave it out")
        return None
    if address.startswith(("tls://", "wss://")):
        return _load_security(given)
    if given:
        raise RefusedError(
            f"{option} given, and the scheduler at {address!r} is not encrypted; "
            "leave it out, or start the scheduler with --protocol tls"
        )
    return None


def _load_security(given: dict[str, str]) -> Any:
    from distributed import Security

    for path in given.values():
        try:
            open(path, "rb").close()
        except OSError as error:
            raise RefusedError(
                f"the TLS file {path!r} cannot be read ({error.strerror}); name one "
                "that can"
            ) from error
    fields = {_SECURITY_FIELDS[name]: path for name, path in given.items()}
    security = Security(require_encryption=True, **fields)
    try:
        context = security.get_connection_args("client")["ssl_context"]
    except OSError as error:
        raise RefusedError(
            f"the TLS files do not work ({error.strerror}); give PEM files: a "
            "certificate, its own key, and the authority of the scheduler's"
        ) from error
    if context is None:
        raise RefusedError(
            "the scheduler is encrypted; give --tls-ca-file and --tls-cert, and "
            "--tls-key if the key has a file of its own"
        )
    return security


@contextmanager
def quiet_logs(quiet: bool = True) -> Iterator[None]:
    """Leave it to the command to say what went wrong."""
    import distributed  # noqa: F401  (makes its loggers, each with a level of its own)

    names = [
        name
        for name in logging.root.manager.loggerDict
        if name.split(".")[0] in ("distributed", "tornado", "asyncio")
    ]
    loggers = [logging.getLogger(name) for name in names if quiet]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def connect(
    address: str, timeout_seconds: float, security: Any = None
) -> Iterator[Any]:
    """Yield a client of a scheduler that answers and has a worker."""
    from distributed import Client
    from distributed.versions import VersionMismatchWarning

    try:
        _check_address(address)
        with warnings.catch_warnings():
            # What matters of it is refused; the doctor tells the rest.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            # One that fails to start would stay the default client.
            client = Client(
                address,
                timeout=timeout_seconds,
                security=security,
                set_as_default=False,
            )
    except (OSError, ValueError, TypeError, ImportError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise RefusedError(
            f"no scheduler answers at {address!r} within {timeout_seconds:g} s "
            f"({lines[0]}); check the address and that it runs"
        ) from error
    with client, client.as_current():
        try:
            client.wait_for_workers(1, timeout=timeout_seconds)
        except TimeoutError as error:
            raise RefusedError(
                f"the scheduler at {address!r} has no worker after "
                f"{timeout_seconds:g} s; start some, or wait longer with --timeout"
            ) from error
        yield client


def _check_address(address: str) -> None:
    """Raise ValueError for what is no address, or one without a port.

    A client that is given such a one stays half-made, and fails again when it goes.
    """
    from distributed.comm import parse_address
    from distributed.comm.registry import get_backend

    scheme, place = parse_address(address)
    # Of transports whose addresses have a form of their own.
    with suppress(NotImplementedError):
        get_backend(scheme).get_address_host_port(place)


@contextmanager
def start_workers(local: LocalWorkers, debug: bool) -> Iterator[Any]:
    """Yield a client of new worker processes that only this machine can reach."""
    from distributed import Client, LocalCluster

    level = logging.WARNING if debug else logging.CRITICAL
    if local.on_gpus:
        with _start_on_gpus(local, level) as client:
            yield client
        return
    port = 8787 if local.dashboard else 0
    with _refusing_failed_start(), undisturbed():
        cluster = LocalCluster(
            n_workers=local.workers,
            threads_per_worker=local.threads,
            memory_limit=local.memory_bytes,
            processes=True,
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:{port}",
            silence_logs=level,
        )
    with cluster, Client(cluster) as client:
        yield client


@contextmanager
def _refusing_failed_start() -> Iterator[None]:
    """Say where to look when dask says that its workers did not start."""
    try:
        yield
    except RuntimeError as error:
        raise RefusedError(
            f"the worker processes did not start ({error}); run twom-dist doctor, "
            "which tries what they need"
        ) from error


@contextmanager
def _start_on_gpus(local: LocalWorkers, level: int) -> Iterator[Any]:
    from ..cluster import local_cluster

    with ExitStack() as stack:
        with _refusing_failed_start(), undisturbed():
            cluster = local_cluster(
                n_workers=local.workers,
                threads_per_worker=local.threads,
                memory_limit=local.memory_bytes,
                gpus=True,
                dashboard=local.dashboard,
                silence_logs=level,
            )
            client = stack.enter_context(cluster)
        yield client
