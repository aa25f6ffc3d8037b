"""Running a product on a live cluster: placement, and what the workers can hold."""

import asyncio
import sys
from typing import Any

from dask.system import CPU_COUNT

from .config import flag_setting
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
    if client is None:
        return Cluster(threads=CPU_COUNT)
    # An asynchronous client cannot ask now; it keeps what the scheduler last told.
    known = (
        client._scheduler_identity if client.asynchronous else client.scheduler_info()
    )
    workers = list(known.get("workers", {}).values())
    if not workers:
        return Cluster()
    count = len(workers) if client.asynchronous else max(1, len(client.nthreads()))
    limits = [worker["memory_limit"] for worker in workers]
    return Cluster(
        count,
        max(worker["nthreads"] for worker in workers),
        int(min(limits)) if all(limits) else None,
    )


def ensure_placement() -> None:
    """Register the placement plugin with the current client's scheduler, once."""
    client = current_client()
    if client is None or not flag_setting("placement"):
        return
    from .tiles.plugin import PLUGIN_NAME, PlacementPlugin

    if getattr(client, "_twom_placement", None) is not None:
        return
    registration = client.register_plugin(PlacementPlugin(), name=PLUGIN_NAME)
    if client.asynchronous:
        # Runs when the loop is next free, and so before a graph is sent.
        registration = asyncio.ensure_future(registration)
    client._twom_placement = registration or True
