"""Where a job runs: a scheduler that is there, a local cluster, or this process."""

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
# Our options -> dask's names.
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
            problem = "--dashboard needs worker processes"
            raise RefusedError(problem, "Leave out --workers 0", "no-processes")
        machine = find_machine(gpus=False)
        return choose_workers(machine, 1, threads_per_worker, memory_limit)
    if dashboard:
        check_dashboard()
    machine = find_machine({"auto": None, "cuda": True}.get(engine, False), workers)
    return choose_workers(machine, workers, threads_per_worker, memory_limit)


def find_scheduler(
    scheduler: str | None,
    scheduler_file: str | None,
    timeout_seconds: float,
    **local: Any,
) -> str | None:
    """Return the address of the scheduler to use, None for workers of our own.

    `local`: the options of such workers, which exclude a scheduler.
    """
    # --workers 0 counts as given.
    flags = [name for name, x in local.items() if x is not None and x is not False]
    if scheduler is not None and scheduler_file is not None:
        problem = "--scheduler and --scheduler-file exclude each other"
        raise RefusedError(problem, "Give one of them", "two-schedulers")
    if scheduler is None and scheduler_file is None:
        return None
    if flags:
        option = "--" + flags[0].replace("_", "-")
        raise RefusedError(
            f"a scheduler has its own workers, and {option} is for new ones",
            f"Leave out {option} or the scheduler",
            "workers-of-scheduler",
        )
    return scheduler or _read_scheduler_file(str(scheduler_file), timeout_seconds)


def _read_scheduler_file(path: str, timeout_seconds: float) -> str:
    """Return the address in a file that a scheduler may be about to write."""
    end = monotonic() + timeout_seconds
    while monotonic() < end:
        with suppress(OSError):
            if os.path.getsize(path) > 0:
                break
        sleep(_LOOK_SECONDS)
    try:
        with open(path, encoding="utf-8") as stream:
            return str(json.load(stream)["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or "it is not one"
        raise RefusedError(
            f"cannot read the scheduler file {path!r} after {timeout_seconds:g} s: "
            f"{reason}",
            "Give one that `dask scheduler --scheduler-file` writes, or a longer "
            "--timeout",
            "no-scheduler-file",
        ) from error


def choose_security(address: str | None, **files: str | None) -> Any:
    """Check the TLS files, and return what a dask client encrypts with, or None.

    A file that is not given is the one that dask is configured with.
    """
    given = {name: path for name, path in files.items() if path is not None}
    if address is None or not address.startswith(("tls://", "wss://")):
        if given:
            option = "--" + next(iter(given)).replace("_", "-")
            raise RefusedError(
                f"{option} is for an encrypted scheduler, not for {address or 'none'}",
                "Leave it out, or start the scheduler with --protocol tls",
                "tls-without-encryption",
            )
        return None
    from distributed import Security

    fields = {_SECURITY_FIELDS[name]: path for name, path in given.items()}
    security = Security(require_encryption=True, **fields)
    try:
        context = security.get_connection_args("client")["ssl_context"]
    except OSError as error:
        context, reason = None, f"the TLS files do not work ({error.strerror})"
    else:
        reason = "the scheduler is encrypted"
    if context is None:
        raise RefusedError(
            reason,
            "Give --tls-ca-file, --tls-cert and --tls-key as PEM files: the authority "
            "that signed the scheduler's certificate, a certificate, and its own key",
            "bad-tls-files",
        )
    return security


@contextmanager
def quiet_logs(quiet: bool = True) -> Iterator[None]:
    """Silence dask's logs: the command says what went wrong."""
    before = logging.root.manager.disable
    if quiet:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


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
            # Differences that matter are refused; the doctor tells the rest.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            # A client that fails to start would stay the default one.
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
            f"({lines[0]})",
            "Check the address, and that the scheduler runs",
            "no-scheduler",
        ) from error
    with client, client.as_current():
        try:
            client.wait_for_workers(1, timeout=timeout_seconds)
        except TimeoutError as error:
            raise RefusedError(
                f"the scheduler at {address!r} has no worker after "
                f"{timeout_seconds:g} s",
                "Start some, or wait longer with --timeout",
                "no-workers",
            ) from error
        yield client


def _check_address(address: str) -> None:
    """Raise ValueError for what is not an address, or has no port.

    A client that is given one stays half-made, and fails again when it is collected.
    """
    from distributed.comm import parse_address
    from distributed.comm.registry import get_backend

    scheme, place = parse_address(address)
    # Some transports have addresses of another form.
    with suppress(NotImplementedError):
        get_backend(scheme).get_address_host_port(place)


@contextmanager
def start_workers(
    local: LocalWorkers,
    dashboard: bool = False,
    insecure: bool = False,
    debug: bool = False,
) -> Iterator[Any]:
    """Yield a client of new worker processes of this machine."""
    try:
        with undisturbed():
            cluster = local_cluster(
                n_workers=local.workers,
                threads_per_worker=local.threads,
                memory_limit=local.memory_bytes,
                gpus=bool(local.gpus.visible),
                dashboard=dashboard,
                security=False if insecure else None,
                silence_logs=logging.WARNING if debug else logging.CRITICAL,
            )
    except RuntimeError as error:
        raise RefusedError(
            f"the worker processes did not start ({error})",
            "Run twom-dist doctor",
            "workers-did-not-start",
        ) from error
    with cluster as client:
        yield client
