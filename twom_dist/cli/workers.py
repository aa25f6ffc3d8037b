"""Where a job runs: a scheduler that is there, a local cluster, or this process."""

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep
from typing import Any

from ..cluster.local import (
    LocalWorkers,
    check_dashboard,
    choose_workers,
    find_machine,
    local_cluster,
)
from .failures import RefusedError, undisturbed

_LOOK_SECONDS = 0.1
# What the options call them -> what dask does.
_SECURITY_FIELDS = {
    "tls_ca_file": "tls_ca_file",
    "tls_cert": "tls_client_cert",
    "tls_key": "tls_client_key",
}


def choose_local_workers(
    workers: int | None,
    threads_per_worker: int | None,
    memory_limit: int | None,
    dashboard: bool,
    engine: str = "cpu",
) -> LocalWorkers:
    """Choose what to start for an engine; with 0 workers, the threads to use here."""
    if workers == 0:
        if dashboard:
            raise RefusedError(
                "--dashboard needs worker processes; leave out --workers 0"
            )
        machine = find_machine(gpus=False)
        return choose_workers(machine, 1, threads_per_worker, memory_limit)
    if dashboard:
        check_dashboard()
    machine = find_machine({"auto": None, "cuda": True}.get(engine, False))
    return choose_workers(machine, workers, threads_per_worker, memory_limit)


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
def start_workers(
    local: LocalWorkers, dashboard: bool = False, debug: bool = False
) -> Iterator[Any]:
    """Yield a client of new worker processes that only this machine can reach."""
    with ExitStack() as stack:
        try:
            with undisturbed():
                cluster = local_cluster(
                    n_workers=local.workers,
                    threads_per_worker=local.threads,
                    memory_limit=local.memory_bytes,
                    gpus=bool(local.gpus.visible),
                    dashboard=dashboard,
                    silence_logs=logging.WARNING if debug else logging.CRITICAL,
                )
                client = stack.enter_context(cluster)
        except RuntimeError as error:
            raise RefusedError(
                f"the worker processes did not start ({error}); run twom-dist doctor, "
                "which tries what they need"
            ) from error
        yield client
