"""Start of workers that import no foreign code, serve no pages, and ignore Ctrl-C."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from tempfile import TemporaryDirectory
from typing import Any

import dask
from distributed.diagnostics.plugin import WorkerPlugin

from ..errors import EngineUnavailableError

_SAFE_PATH = "PYTHONSAFEPATH"
_OF_WORKERS = f"distributed.nanny.pre-spawn-environ.{_SAFE_PATH}"
PROFILER = "distributed.worker.profile.enabled"
# Before this Python, dask's profiler stops a process for ever if garbage is collected
# while it asks for the frames of all threads (dask/distributed #8616).
SAFE_WITH_PROFILER = (3, 12)


@contextmanager
def guarded_start() -> Iterator[None]:
    """Start workers that import nothing from the current folder and ignore Ctrl-C.

    multiprocessing starts Python with ``-c``, which looks for modules in the current
    folder first. dask sets the variable again for a worker that it restarts. A terminal
    sends Ctrl-C to all: workers, which inherit this process's mask, would die before it
    has asked what is to be kept.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    # Its first start, which the first worker would cause, removes SIGINT from the mask.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        # The scheduler, which is of this process, reads it as well.
        safe = sys.version_info >= SAFE_WITH_PROFILER
        own = {_OF_WORKERS: "1", PROFILER: safe and dask.config.get(PROFILER)}
        with dask.config.set(own):
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Scripts that this process starts may import modules beside them.
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def private_folder(where: str | None = None) -> TemporaryDirectory[str]:
    """Make a folder for what a cluster spills, which no other user can enter.

    dask's own, ``dask-scratch-space``, may be there already and belong to anybody: its
    processes import modules from it, and unpickle what they have spilled there.
    """
    where = where or dask.config.get("temporary-directory")
    try:
        if where:
            os.makedirs(where, exist_ok=True)
        return TemporaryDirectory("", "twom-", where, ignore_cleanup_errors=True)
    except OSError as error:
        problem = f"no folder can be made for what workers spill ({error})"
        remedy = "Name another one as local_directory"
        raise EngineUnavailableError(problem, remedy, "no-folder") from None


class ClosedPages(WorkerPlugin):
    """Close the port on which a worker serves web pages to anybody."""

    name = "twom-closed-pages"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Stop the HTTP server whenever a worker starts or restarts."""
        worker.http_server.stop()


def close_pages(client: Any) -> None:
    """Close the ports for web pages at the scheduler and at present and later workers.

    Dask's setting of routes is of all clusters of a process, and leaves /sitemap.json.
    """
    client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.http_server.stop())
    client.register_plugin(ClosedPages())
