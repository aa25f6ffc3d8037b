"""The live cluster of a product: its workers' memory, and its plugins."""

import asyncio
import sys
from contextlib import suppress
from typing import Any

from dask.system import CPU_COUNT

from ..config import choice_setting, flag_setting
from ..errors import ArgumentError, warn_caller
from ..plan import Cluster
from ..plan.cluster import MemoryBudget, read_limit
from ..tiles.dask.placement.grids import node_size
from .answers import (
    ANSWER_SECONDS,
    answers_of,
    ask_scheduler,
    check_equipped,
    is_silent,
)
from .devices import budget_for_products
from .machine import machine_memory


def current_client() -> Any:
    """Return the distributed client that a compute would use, or None.

    Only what is loaded is asked: a program without distributed never imports it.
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def check_client(client: Any) -> None:
    """Raise unless `client` is None or a synchronous distributed.Client."""
    if client is None:
        return
    from distributed import Client

    if not isinstance(client, Client):
        problem = f"client is a {type(client).__name__}"
        raise ArgumentError(problem, "Give a distributed.Client", "not-a-client")
    if client.asynchronous:
        problem = "the client is asynchronous, but its answers have to be waited for"
        remedy = "Give a client made without asynchronous=True"
        raise ArgumentError(problem, remedy, "asynchronous-client")


def current_cluster(engine: str = "cpu") -> Cluster:
    """Describe the workers of the current client, or this machine without.

    The smallest memory limit counts, among workers that have one. With the engine
    "cuda" it is that of their devices, since dask limits the memory of hosts.
    """
    flag_setting("refuse-memory")  # read if a product does not fit; refused here
    client, on_devices = current_client(), engine == "cuda"
    if client is None:
        memory = MemoryBudget(machine_memory(), "machine")
        if on_devices:
            memory = budget_for_products(None, ())
        return Cluster(threads=CPU_COUNT, memory=memory)
    workers = list_workers(client)
    if not workers:
        return _as_connected(client, on_devices)
    limits = [x["memory_limit"] for x in workers if x["memory_limit"]]
    memory = MemoryBudget(min(limits, default=None))
    if on_devices:
        memory = budget_for_products(client, [x["address"] for x in workers])
    threads = max(x["nthreads"] for x in workers)
    return Cluster(len(workers), threads, memory, node_size(x["host"] for x in workers))


def _as_connected(client: Any, on_devices: bool) -> Cluster:
    """Describe workers, assumed alike, by the sums that dask's client knows."""
    told = client._scheduler_identity
    count = told.get("n_workers", 0)
    if not count:
        return _as_scaled(client.cluster, on_devices)
    limit = None if on_devices else told["total_memory"] // count or None
    threads = max(1, told["total_threads"] // count)
    return Cluster(count, threads, MemoryBudget(limit))


def _as_scaled(cluster: Any, on_devices: bool) -> Cluster:
    """Describe the workers that an adaptive cluster is to start: one if unbounded."""
    adaptive: Any = getattr(cluster, "_adaptive", None)
    most = 1.0
    if getattr(adaptive, "state", "") in ("starting", "running"):
        most = adaptive.maximum
    options = (getattr(cluster, "new_spec", None) or {}).get("options") or {}
    threads = options.get("nthreads")
    limit = read_limit(options.get("memory_limit"), machine_memory())
    return Cluster(
        int(most) if 1 <= most <= 2**20 else 1,
        threads if isinstance(threads, int) and threads > 0 else 1,
        MemoryBudget(None if on_devices else limit or None),
    )


def list_workers(client: Any) -> list[dict[str, Any]]:
    """Ask the scheduler for its workers, their threads and memory limits.

    Without an answer they are those of the last one, or none. An asynchronous client's
    event loop waits for us, so that only a scheduler of this process can answer.
    """
    if not client.asynchronous:
        known = answers_of(client)
        told = ask_scheduler(client, describe_workers)
        known.workers = known.workers if told is None else told
        return known.workers or []
    from distributed import Scheduler

    address = client.scheduler.address
    here = (x for x in Scheduler._instances if x.address == address)
    return next(map(describe_workers, here), [])


def describe_workers(dask_scheduler: Any) -> list[dict[str, Any]]:
    """List the workers and what they have; runs on the scheduler."""
    return [
        {
            "address": ws.address,
            "host": ws.host,
            "nthreads": ws.nthreads,
            "memory_limit": int(ws.memory_limit or 0),
        }
        for ws in dask_scheduler.workers.values()
    ]


def warn_of_idle_gpus() -> None:
    """Warn once, for each client, that NumPy blocks leave its workers' GPUs idle."""
    client = current_client()
    # `ensure_plugins` has asked the workers.
    known = None if client is None else answers_of(client)
    if known is not None and any(known.equipped.values()) and not known.warned:
        known.warned = True
        warn_caller(
            "a product of NumPy blocks runs on cores, though workers have GPUs; make "
            'CuPy blocks, such as A.map_blocks(cupy.asarray) or A.to_backend("cupy"), '
            "or start workers without GPUs",
            RuntimeWarning,
        )


def ensure_plugins() -> None:
    """Register our plugins with the cluster of the current client, once each.

    Refused if the scheduler or a worker lacks this package.
    """
    client = current_client()
    if client is None:
        return
    if not client.asynchronous:
        listed = answers_of(client).workers  # for the plan, a moment ago
        listed = list_workers(client) if listed is None else listed
        check_equipped(client, [x["address"] for x in listed])
    if flag_setting("placement"):
        from ..tiles.dask.placement.plugin import PlacementPlugin

        _register(client, PlacementPlugin())
    if choice_setting("transport") == "auto":
        from .transport.worker_plugin import TransportPlugin

        # It only saves time, which a worker that is dying does not need; dask logs why.
        # Schedulers pass a worker's error on as an Exception.
        with suppress(Exception):
            _register(client, TransportPlugin())


def _register(client: Any, plugin: Any) -> None:
    known = answers_of(client)
    if plugin.name in known.plugins:
        return
    known.plugins[plugin.name] = True
    if client.asynchronous:
        # Runs when the loop is next free, and so before a graph is sent.
        registration = client.register_plugin(plugin, name=plugin.name)
        known.plugins[plugin.name] = asyncio.ensure_future(registration)
    else:
        client.sync(_register_soon, client, plugin)


async def _register_soon(client: Any, plugin: Any) -> None:
    """Register a plugin; do not wait for a silent worker, which gets it later.

    dask waits for all of them, until it gives up a silent one after minutes.
    """
    question = client.register_plugin(plugin, name=plugin.name)
    registration = asyncio.ensure_future(question)
    seconds = 0 if is_silent(client) else ANSWER_SECONDS
    registered, _ = await asyncio.wait({registration}, timeout=seconds)
    for found in registered:
        found.result()
