"""Closing the ports on which dask serves its web pages to whoever asks."""

from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin


def close_pages(client: Any) -> None:
    """Close the ports of pages at the scheduler, and at all workers there will be.

    Routes that are configured would hold for all clusters of this process, and leave
    /sitemap.json.
    """
    client.run_on_scheduler(_close)
    client.register_plugin(ClosedPages())


def _close(dask_scheduler: Any) -> None:
    dask_scheduler.http_server.stop()


class ClosedPages(WorkerPlugin):
    """Close the port of a worker's pages when it starts, or starts again."""

    name = "twom-closed-pages"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Stop listening, as at the scheduler."""
        worker.http_server.stop()
