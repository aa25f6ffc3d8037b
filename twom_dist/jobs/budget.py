"""Memory that the processes of a job's workers leave to tiles."""

from dataclasses import replace
from typing import Any

import dask

from ..kernels.cpu.buffers import kept_bytes
from ..plan import Cluster
from ..plan.memory import INTERPRETER_BYTES, PAUSE, MemoryBudget
from .watchdog import ask


def budget_for_job(cluster: Cluster, client: Any = None) -> Cluster:
    """Measure what workers take beside tiles; without any, assume the usual."""
    if client is None:
        pause = dask.config.get("distributed.worker.memory.pause", PAUSE)
        found = [(INTERPRETER_BYTES, pause)]
    else:
        # A worker that has just died does not matter.
        found = [*ask(client.run, _measure, on_error="ignore").values()]
    taken = max([INTERPRETER_BYTES, *(memory for memory, _ in found)])
    # Without a pause dask kills a worker at 0.95.
    pause = min((float(pause or PAUSE) for _, pause in found), default=PAUSE)
    memory = MemoryBudget(cluster.memory.limit, "job", taken, pause)
    return replace(cluster, memory=memory)


def _measure(dask_worker: Any) -> tuple[int, Any]:
    # Earlier products leave buffers that the next one takes first.
    memory = dask_worker.monitor.get_process_memory() - kept_bytes()
    return int(memory), dask_worker.memory_manager.memory_pause_fraction
