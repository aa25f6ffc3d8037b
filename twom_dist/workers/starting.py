"""Start of workers: no module and no folder of another user, and no Ctrl-C."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from tempfile import TemporaryDirectory

import dask

from ..errors import EngineUnavailableError

_SAFE_PATH = "PYTHONSAFEPATH"
_OF_WORKERS = f"distributed.nanny.pre-spawn-environ.{_SAFE_PATH}"


@contextmanager
def guarded_start() -> Iterator[None]:
    """Start workers that import nothing from the current folder and ignore Ctrl-C.

    multiprocessing starts Python with ``-c``, which looks for modules in the current
    folder first. dask sets the variable again for a worker that it restarts.

    A terminal sends Ctrl-C to all processes. Workers inherit the mask of whoever starts
    them: they would die before this process has asked what is to be kept.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    # Its first start, which the first worker would cause, removes SIGINT from the mask.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with dask.config.set({_OF_WORKERS: "1"}):
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Scripts that this process starts may import what lies beside them.
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
