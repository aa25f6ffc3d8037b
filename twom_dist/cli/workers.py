"""Where a job runs: a scheduler that is there, a local cluster, or this process."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..plan import Cluster
from .failures import RefusedError, undisturbed

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class LocalWorkers:
    """Workers to start here; none of them: threads of this process."""

    workers: int
    threads: int
    memory_bytes: int
    dashboard: bool

    @property
    def cluster(self) -> Cluster:
        """What the planner needs to know."""
        return Cluster(max(1, self.workers), self.threads, self.memory_bytes)


def choose_local_workers(
    workers: int | None,
    threads_per_worker: int | None,
    memory_limit: int | None,
    dashboard: bool,
) -> LocalWorkers:
    """Default: as many single-threaded processes as cores, sharing the memory."""
    from dask.system import CPU_COUNT
    from distributed.system import MEMORY_LIMIT

    if dashboard:
        _check_dashboard(workers)
    if workers is None:
        workers = max(1, CPU_COUNT // (threads_per_worker or 1))
    if threads_per_worker is None:
        threads_per_worker = CPU_COUNT if workers == 0 else 1
    if memory_limit is None:
        memory_limit = int(MEMORY_LIMIT) // max(1, workers)
    return LocalWorkers(workers, threads_per_worker, memory_limit, dashboard)


def _check_dashboard(workers: int | None) -> None:
    from importlib.util import find_spec

    if workers == 0:
        raise RefusedError("--dashboard needs worker processes; leave out --workers 0")
    if find_spec("bokeh") is None:
        raise RefusedError(
            "--dashboard needs bokeh, which is not installed: pip install bokeh"
        )


def find_scheduler(
    scheduler: str | None, scheduler_file: str | None, **local: Any
) -> str | None:
    """Return the address of the scheduler to use, None for workers of our own."""
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
    try:
        with open(scheduler_file, encoding="utf-8") as stream:
            return str(json.load(stream)["address"])
    except OSError as error:
        raise RefusedError(
            f"the scheduler file {scheduler_file!r} cannot be read "
            f"({error.strerror}); start the scheduler with --scheduler-file first"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            f"{scheduler_file!r} is no scheduler file; give the one that `dask "
            "scheduler --scheduler-file` writes"
        ) from error


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
def connect(address: str, timeout_seconds: float) -> Iterator[Any]:
    """Yield a client of a scheduler that answers and has a worker."""
    from distributed import Client

    try:
        # One that fails to start would stay the default client.
        client = Client(address, timeout=timeout_seconds, set_as_default=False)
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


@contextmanager
def start_workers(local: LocalWorkers, debug: bool) -> Iterator[Any]:
    """Yield a client of new worker processes that only this machine can reach."""
    from distributed import Client, LocalCluster

    level = logging.WARNING if debug else logging.CRITICAL
    port = 8787 if local.dashboard else 0
    with undisturbed():
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
