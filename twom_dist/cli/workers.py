"""Where a job runs: a running cluster, a new local cluster, or this process."""

import json
import logging
import warnings
from asyncio import run
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep
from typing import Any

import dask

from ..errors import TwomError
from ..plan import Cluster
from ..workers.client import current_cluster
from ..workers.local import choose_workers, local_cluster
from .failures import defer_signals
from .options import drop_none

_LOOK_SECONDS = 0.1
# Warnings of tasks, of which clients are told as well.
_WARNINGS = "distributed.nanny.pre-spawn-environ.PYTHONWARNINGS"


@contextmanager
def find_workers(
    engine: str, n_workers: int | None, dashboard: bool, insecure: bool, **options: Any
) -> Iterator[tuple[Any, Cluster]]:
    """Yield a client of a scheduler, or of new workers, and what they have.

    With 0 workers the client is None: threads of this process compute.
    """
    limits = {x: options[x] for x in ("threads_per_worker", "memory_limit")}
    options |= {"n_workers": n_workers, "dashboard": dashboard, "insecure": insecure}
    if n_workers == 0 and dashboard:
        problem = "--n-workers 0 and --dashboard exclude each other"
        remedy = "Leave out one: without workers there is no dashboard"
        raise TwomError(problem, remedy, "dashboard-of-threads")
    with ExitStack() as stack:
        client = stack.enter_context(connect(**options))
        if client is None and n_workers == 0:
            yield None, choose_workers(1, **limits)
            return
        if client is None:
            import distributed  # noqa: F401 its settings

            with defer_signals(), dask.config.set({_WARNINGS: "ignore"}):
                cluster = local_cluster(
                    n_workers=n_workers,
                    gpus={"auto": None, "cuda": True}.get(engine, False),
                    dashboard=dashboard,
                    security=False if insecure else None,
                    # As quiet as this process.
                    silence_logs=max(logging.WARNING, logging.root.manager.disable),
                    **limits,
                )
            client = stack.enter_context(cluster)
        yield client, current_cluster()


@contextmanager
def connect(
    scheduler: str | None, scheduler_file: str | None, timeout: float, **others: Any
) -> Iterator[Any]:
    """Yield a client of a scheduler that answers and has a worker, if one is named.

    `others`: the options of new workers, which a scheduler excludes.
    """
    named = drop_none(scheduler=scheduler, scheduler_file=scheduler_file)
    if not named:
        yield None
        return
    # --n-workers 0 counts as given.
    more = [name for name, x in drop_none(**others).items() if x is not False]
    one, *more = (f"--{name}".replace("_", "-") for name in (*named, *more))
    if more:
        problem = f"{one} and {more[0]} exclude each other"
        remedy = "Give one of them; options of a job script stand before the command"
        raise TwomError(problem, remedy, "workers-of-scheduler")
    address = scheduler
    if address is None:
        address = _read_scheduler_file(str(scheduler_file), timeout)
    client = _reach(address, timeout)
    with client, client.as_current():
        try:
            client.wait_for_workers(1, timeout=timeout)
        except TimeoutError as error:
            problem = f"the scheduler at {address!r} has no worker after {timeout:g} s"
            remedy = "Start some, or wait longer with --timeout"
            raise TwomError(problem, remedy, "no-workers") from error
        yield client


def _read_scheduler_file(path: str, timeout: float) -> str:
    """Return the address in a file that a scheduler may be about to write."""
    end = monotonic() + timeout
    while monotonic() < end:
        with (
            suppress(OSError, ValueError, KeyError, TypeError),
            open(path, encoding="utf-8") as stream,
        ):
            return str(json.load(stream)["address"])
        sleep(_LOOK_SECONDS)
    problem = f"there is no address of a scheduler in {path!r} after {timeout:g} s"
    remedy = "Give the file that a scheduler writes, or a longer --timeout"
    raise TwomError(problem, remedy, "no-scheduler-file")


def _reach(address: str, timeout: float) -> Any:
    from distributed import Client, Security
    from distributed.comm import connect as open_comm
    from distributed.versions import VersionMismatchWarning

    async def look() -> None:
        # A client that fails stays half-made, and complains when it is collected.
        given = Security().get_connection_args("client")
        (await open_comm(address, timeout=timeout, **given)).abort()

    try:
        run(look())
        with warnings.catch_warnings():
            # Differences that matter are refused; the doctor tells the rest.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            # A client that fails to start would stay the default one.
            return Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError, RuntimeError) as error:
        [reason, *_] = str(error).splitlines() or [type(error).__name__]
        problem = f"no scheduler answers at {address!r} in {timeout:g} s ({reason})"
        remedy = "Check the address, that the scheduler runs, and dask's TLS settings"
        raise TwomError(problem, remedy, "no-scheduler") from error
