"""Closing of the ports on which dask serves its web pages to anybody."""

from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin


def close_pages(client: Any) -> None:
    """Close the ports for web pages at the scheduler and at present and later workers.

    Configuring dask without routes would affect all clusters of this process, and
    leave /sitemap.json.
    """
    client.run_on_scheduler(_close)
    client.register_plugin(ClosedPages())


def _close(dask_scheduler: Any) -> None:
    dask_scheduler.http_server.stop()


class ClosedPages(WorkerPlugin):
    """Close the port for web pages whenever a worker starts or restarts."""

    name = "twom-closed-pages"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Stop the worker's HTTP server."""
        worker.http_server.stop()
