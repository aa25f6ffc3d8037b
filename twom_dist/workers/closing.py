"""Closing of a local cluster in silence: dask tells of tasks that it ends itself."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

Keep = Callable[[logging.LogRecord], bool]
_CLOSING = ("closing", "closing_gracefully", "closed")


class QuietEnd(WorkerPlugin):
    """Drop what a worker logs while it closes: tasks and connections that break off."""

    name = "twom-quiet-end"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Filter the logs of a worker that has a process of its own."""
        if not worker.nanny:
            return

        def keep(_: logging.LogRecord) -> bool:
            return worker.status.name not in _CLOSING

        for name in ("distributed.worker", "distributed.worker.state_machine"):
            logging.getLogger(name).addFilter(keep)


@contextmanager
def quiet_end() -> Iterator[None]:
    """Drop what this process logs of workers and waits that its closing cuts short."""
    filters: dict[str, Keep] = {
        # A worker whose task goes on is killed after a while.
        "distributed.nanny": lambda _: False,
        # Ctrl-C leaves a wait of the client's, which raises this as futures go.
        "asyncio": lambda record: not _is_exit(record),
    }
    for name, keep in filters.items():
        logging.getLogger(name).addFilter(keep)
    try:
        yield
    finally:
        for name, keep in filters.items():
            logging.getLogger(name).removeFilter(keep)


def _is_exit(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is not None and kind.__name__ == "AllExit"
