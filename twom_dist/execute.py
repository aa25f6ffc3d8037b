"""Running a product on a live cluster: placement, and what the workers can hold."""

import sys
from typing import Any

from dask.system import CPU_COUNT

from .config import setting
from .plan import Cluster


def current_client() -> Any:
    """Return the distributed client that a compute would use, or None.

    Looks only at what is loaded: a program without distributed never imports it.
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def current_cluster() -> Cluster:
    """Describe the workers of the current client; one unlimited worker without.

    The smallest memory limit counts; a worker without one has none.
    """
    client = current_client()
    if client is None or client.asynchronous:
        return Cluster(threads=CPU_COUNT)
    threads = client.nthreads()
    if not threads:
        return Cluster()
    known = client.scheduler_info()["workers"].values()
    limits = [worker["memory_limit"] for worker in known]
    memory = min(limits) if limits and all(limits) else None
    return Cluster(len(threads), max(threads.values()), memory)


def ensure_placement() -> None:
    """Register the placement plugin with the current client's scheduler, once."""
    client = current_client()
    if client is None or not setting("placement"):
        return
    from .tiles.plugin import PLUGIN_NAME, PlacementPlugin

    if getattr(client, "_twom_placement", None) is not None:
        return
    registration = client.register_plugin(PlacementPlugin(), name=PLUGIN_NAME)
    # An asynchronous client registers when its loop runs next, before any graph.
    client._twom_placement = registration or True
