"""Closing of a local cluster in silence: dask logs the tasks that it ends itself."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

_CLOSING = ("closing", "closing_gracefully", "closed")


class QuietEnd(WorkerPlugin):
    """Drop what a worker logs while it closes: tasks and connections that break off."""

    name = "twom-quiet-end"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Filter the logs of a worker that has a process of its own."""
        if worker.nanny:
            for name in ("distributed.worker", "distributed.worker.state_machine"):
                logging.getLogger(name).addFilter(
                    lambda _: worker.status.name not in _CLOSING
                )


@contextmanager
def quiet_end() -> Iterator[None]:
    """Drop what this process logs of workers and waits that its closing cuts short."""
    # A worker whose task goes on is killed after a while; and Ctrl-C leaves a wait of
    # the client's, which raises this as futures go.
    nanny, waits = map(logging.getLogger, ("distributed.nanny", "asyncio"))
    nanny.addFilter(_drop)
    waits.addFilter(_is_no_exit)
    try:
        yield
    finally:
        nanny.removeFilter(_drop)
        waits.removeFilter(_is_no_exit)


def _drop(_: logging.LogRecord) -> bool:
    return False


def _is_no_exit(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "AllExit"
