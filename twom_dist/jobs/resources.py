"""The engine of a job, and the memory that its workers have for tiles."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dask

from ..errors import INSTALL_CUDA, EngineUnavailableError
from ..kernels.cpu.buffers import kept
from ..plan import Cluster
from ..plan.cluster import DEVICE_THREADS, INTERPRETER_BYTES, PAUSE, MemoryBudget
from ..workers.devices import WorkerDevice, measure_device
from .watchdog import ask

Devices = Mapping[str, WorkerDevice]  # by the addresses of workers


def budget_for_job(cluster: Cluster, client: Any = None) -> Cluster:
    """Measure what workers take besides tiles; without any, assume the usual."""
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
    memory = dask_worker.monitor.get_process_memory() - kept.nbytes
    return int(memory), dask_worker.memory_manager.memory_pause_fraction


def choose_engine(engine: str, devices: Devices) -> str:
    """Choose the engine of a job, the same for all of its tiles."""
    if engine not in ("auto", "cuda"):
        return engine
    # Workers that share a GPU were started for their cores, unless cuda is asked for.
    sharers = Counter(x.name for x in devices.values())
    lacking = {
        address: x.reason or "other workers share it"
        for address, x in devices.items()
        if not x.name or (engine == "auto" and sharers[x.name] > 1)
    }
    if engine == "auto" and len(lacking) == len(devices):
        return "cpu"
    if lacking or not devices:
        none = "the scheduler", "it has no worker"
        address, reason = next(iter(lacking.items()), none)
        how_many = f"{len(lacking)} of {len(devices)} processes"
        problem = f"{how_many} have no GPU to use, such as {address} ({reason})"
        code = "gpu-missing" if len(lacking) < len(devices) else "no-gpu"
        remedy = "Start workers on GPUs only, or name engine='cpu'"
        raise EngineUnavailableError(problem, remedy, code)
    try:
        # The client has to know the type of the workers' blocks.
        import cupy  # noqa: F401
    except ImportError as error:
        problem = f"the workers have GPUs, but CuPy is missing here ({error})"
        remedy = f"Install it, without a GPU: {INSTALL_CUDA}; or name engine='cpu'"
        raise EngineUnavailableError(problem, remedy, "no-cupy") from None
    return "cuda"


def budget_for_devices(cluster: Cluster, devices: Devices) -> Cluster:
    """Replace the memory of the workers' hosts by that of their devices."""
    sharers = Counter(x.name for x in devices.values())
    rooms = [x.room_beside(sharers[x.name]) for x in devices.values()]
    return replace(cluster, memory=MemoryBudget(min(rooms), "device"))


def choose_engine_and_budget(
    engine: str, cluster: Cluster, client: Any = None
) -> tuple[str, Cluster]:
    """Settle the engine of a job, and with it the memory of tiles."""
    devices: dict[str, WorkerDevice] = {}
    if engine in ("auto", "cuda"):
        if client is None:
            devices = {"this process": measure_device()}
        else:
            # A worker that has just died does not matter.
            devices = ask(client.run, measure_device, on_error="ignore")
    engine = choose_engine(engine, devices)
    if engine != "cuda":
        return engine, budget_for_job(cluster, client)
    if client is None:
        cluster = replace(cluster, threads=min(cluster.threads, DEVICE_THREADS))
    return engine, budget_for_devices(cluster, devices)
