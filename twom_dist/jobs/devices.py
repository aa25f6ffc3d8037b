"""The GPUs of the workers: the engine that a job gets by them, and room for tiles."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from platform import node
from typing import Any

from ..cluster.cuda import INSTALL
from ..cluster.nvml import find_gpus
from ..errors import EngineUnavailableError, TwomError
from ..kernels.registry import get_engine
from ..memory import DEVICE_SHARE, MemoryBudget
from ..plan import Cluster
from .watchdog import ask

# Tasks of this process that share its device: one reads while another multiplies.
DEVICE_THREADS = 2


@dataclass(frozen=True)
class Device:
    """The GPU that a process multiplies on, or the reason why there is none."""

    # The same for all processes that share it; empty without one.
    name: str = ""
    reason: str = ""
    # Of all that share it.
    free_bytes: int = 0
    # That the process has taken and does not use.
    own_bytes: int = 0
    # That it may allocate yet, and before dask moves tiles to host or disk, if limited.
    most_bytes: int | None = None

    def room(self, sharers: int) -> int:
        """Return the bytes to lay out a job for, where so many share the device."""
        room = self.free_bytes // sharers + self.own_bytes
        return max(1, room if self.most_bytes is None else min(room, self.most_bytes))


def find_device(dask_worker: Any = None) -> Device:
    """Open the device of this process as the engine does; runs on the workers."""
    # Workers without a GPU need not load CuPy to say so.
    gpus = find_gpus()
    if not gpus.visible:
        return Device(reason=gpus.reason)
    try:
        get_engine("cuda")
        return _measure(dask_worker)
    except Exception as error:  # a broken driver raises what it likes
        said = error.problem if isinstance(error, TwomError) else str(error)
        return Device(reason=" ".join(said.split()) or type(error).__name__)


def _measure(dask_worker: Any) -> Device:
    import cupy

    device = cupy.cuda.Device()
    # Parts of a partitioned device have a UUID each.
    uuid = cupy.cuda.runtime.getDeviceProperties(device.id).get("uuid")
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    data = getattr(dask_worker, "data", None)
    limits = []
    # dask-cuda counts the tiles on the device; dask counts them as if on the host.
    if tile_bytes := getattr(getattr(data, "device_buffer", data), "n", None):
        # The most that is planned of a device is tiles, or little else.
        limits.append(int(tile_bytes / DEVICE_SHARE))
    if limit := int(pool.get_limit()):
        limits.append(limit - pool.used_bytes())
    return Device(
        f"{node()} {device.pci_bus_id} {uuid}",
        free_bytes=int(free),
        own_bytes=_pool_bytes(cupy, pool),
        most_bytes=min(limits, default=None),
    )


def _pool_bytes(cupy: Any, pool: Any) -> int:
    """Bytes left of the pool that CuPy allocates from, or all of RMM's, if it has."""
    allocator = cupy.cuda.get_allocator()
    if (getattr(allocator, "__module__", None) or "").partition(".")[0] != "rmm":
        return int(pool.free_bytes())
    import rmm

    resource = rmm.mr.get_current_device_resource()
    # Below what logs or counts allocations.
    while resource is not None and not hasattr(resource, "pool_size"):
        resource = getattr(resource, "upstream_mr", None)
    return 0 if resource is None else int(resource.pool_size())


def find_devices(engine: str, client: Any = None) -> dict[str, Device]:
    """Ask the workers, or this process, for their GPUs, if the engine hangs on them."""
    if engine not in ("auto", "cuda"):
        return {}
    if client is None:
        return {"this process": find_device()}
    # One that has just died is no matter.
    return dict(ask(client.run, find_device, on_error="ignore"))


def choose_engine(engine: str, devices: Mapping[str, Device]) -> str:
    """Choose the engine of a job, the same for all of its tiles.

    Workers that share a GPU were started for the cores, unless somebody asks for cuda.
    """
    if engine not in ("auto", "cuda"):
        return engine
    sharers = Counter(x.name for x in devices.values())
    lacking = {
        address: x.reason or "other workers share it"
        for address, x in devices.items()
        if not x.name or (engine == "auto" and sharers[x.name] > 1)
    }
    if engine == "auto" and len(lacking) == len(devices):
        return "cpu"
    if lacking or not devices:
        none = ("the scheduler", "it has no worker")
        address, reason = next(iter(lacking.items()), none)
        raise EngineUnavailableError(
            f"{len(lacking)} of {len(devices)} processes have no GPU to use, such as "
            f"{address} ({reason})",
            "Start workers on GPUs only, or name engine='cpu'",
            "gpu-missing" if len(lacking) < len(devices) else "no-gpu",
        )
    try:
        # The client has to know the type of the workers' blocks.
        import cupy  # noqa: F401
    except ImportError as error:
        problem = f"the workers have GPUs, and here CuPy is missing ({error})"
        remedy = f"Install it, which takes no GPU: {INSTALL}; or name engine='cpu'"
        raise EngineUnavailableError(problem, remedy, "no-cupy") from None
    return "cuda"


def budget_for_devices(cluster: Cluster, devices: Mapping[str, Device]) -> Cluster:
    """Put the memory of the workers' devices in the place of the hosts'."""
    sharers = Counter(x.name for x in devices.values())
    rooms = [x.room(sharers[x.name]) for x in devices.values()]
    return replace(cluster, memory=MemoryBudget(min(rooms), "device"))
