"""GPUs: those that dask-cuda finds here, and the memory of the workers' GPUs."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from platform import node
from typing import Any

from ..errors import INSTALL_CUDA, TwomError, warn_caller
from ..kernels.registry import get_engine
from ..plan.cluster import DEVICE_SHARE, OUTPUT_SHARE, MemoryBudget
from .answers import answers_of, ask_workers

_OPEN_SECONDS = 30  # for workers to open their devices


@dataclass(frozen=True)
class WorkerDevice:
    """The GPU that a process multiplies on, or the reason why there is none."""

    name: str = ""  # the same for all processes that share it; empty without one
    reason: str = ""
    free_bytes: int = 0  # free memory of the device
    own_bytes: int = 0  # memory that the process has taken, used or not
    held_bytes: int = 0  # the part of that which arrays hold
    most_bytes: int | None = None  # beyond which dask moves tiles to host or disk

    def room(self, sharers: int) -> int:
        """Return the bytes that a process may take if `sharers` share the device."""
        room = self.free_bytes // sharers + self.own_bytes
        return max(1, room if self.most_bytes is None else min(room, self.most_bytes))

    def room_beside(self, sharers: int) -> int:
        """Return the room that arrays leave, of which plans take only a share."""
        return max(1, self.room(sharers) - int(self.held_bytes / DEVICE_SHARE))


def measure_device(dask_worker: Any = None) -> WorkerDevice:
    """Open the device of this process as the engine does; runs on the workers."""
    try:
        get_engine("cuda")
        return _measure(getattr(dask_worker, "data", None))
    except Exception as error:  # a broken driver raises what it likes
        said = error.problem if isinstance(error, TwomError) else str(error)
        return WorkerDevice(reason=" ".join(said.split()) or type(error).__name__)


def _measure(data: Any) -> WorkerDevice:
    import cupy

    device = cupy.cuda.Device()
    # Parts of a partitioned device have a UUID each.
    uuid = cupy.cuda.runtime.getDeviceProperties(device.id).get("uuid")
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    own, held = int(pool.total_bytes()), int(pool.used_bytes())
    limits = []
    module = getattr(cupy.cuda.get_allocator(), "__module__", None) or ""
    if module.partition(".")[0] == "rmm":
        import rmm  # RMM does not tell how much of its pool is used

        resource = rmm.mr.get_current_device_resource()
        # Look below adaptors that log or count allocations.
        while resource is not None and not hasattr(resource, "pool_size"):
            resource = getattr(resource, "upstream_mr", None)
        own = 0 if resource is None else int(resource.pool_size())
        held = _weigh(cupy, data)
    elif limit := int(pool.get_limit()):
        limits.append(limit)
    # dask-cuda counts the tiles on the device; dask counts them as if on the host.
    if tile_bytes := getattr(getattr(data, "device_buffer", data), "n", None):
        limits.append(int(tile_bytes / OUTPUT_SHARE))
    return WorkerDevice(
        f"{node()} {device.pci_bus_id} {uuid}",
        free_bytes=int(free),
        own_bytes=own,
        held_bytes=held,
        most_bytes=min(limits, default=None),
    )


def _weigh(cupy: Any, data: Any) -> int:
    """Count the bytes of the blocks that a worker keeps on its device, each once."""
    kept = getattr(getattr(data, "device_buffer", data), "fast", data)
    # Look below zict's LRU, which would count the look as a use.
    blocks = getattr(kept, "d", kept) or {}
    arrays = {id(x): x for x in blocks.values() if isinstance(x, cupy.ndarray)}
    return sum(int(x.nbytes) for x in arrays.values())


def budget_for_products(client: Any, workers: Iterable[str]) -> MemoryBudget:
    """Plan products by the smallest device, with what persisted inputs hold there.

    Without a client it is the device of this process; without any, nothing is limited.
    Workers are asked once, and again when they change.
    """
    if client is None:
        return _smallest([measure_device()])
    addresses, known = frozenset(workers), answers_of(client)
    asked, found = known.devices
    # The workers of an asynchronous client may wait for this very thread.
    if asked != addresses and not client.asynchronous:
        told = ask_workers(client, addresses, measure_device, _OPEN_SECONDS)
        # A worker that has just died does not matter.
        measured = {x: y for x, y in told.items() if isinstance(y, WorkerDevice)}
        _warn_of_lacking(measured)
        found = _smallest(measured.values())
        known.devices = addresses, found
    return found


def _warn_of_lacking(devices: Mapping[str, WorkerDevice]) -> None:
    """Warn of workers without a GPU among others: dask sends them tasks as well."""
    lacking = {address: x.reason for address, x in devices.items() if not x.name}
    if lacking and len(lacking) < len(devices):
        address, reason = next(iter(lacking.items()))
        warn_caller(
            f"{len(lacking)} of {len(devices)} workers have no GPU to use, such as "
            f"{address} ({reason}), and tasks of CuPy blocks fail there; start workers "
            "on GPUs only, or name the others in compute(workers=...)",
            RuntimeWarning,
        )


def _smallest(devices: Iterable[WorkerDevice]) -> MemoryBudget:
    there = [x for x in devices if x.name]
    sharers = Counter(x.name for x in there)
    rooms = [x.room(sharers[x.name]) for x in there]
    return MemoryBudget(min(rooms), "device") if rooms else MemoryBudget()


# Share of a device's memory, beside contexts, cuBLAS and kernels. By arithmetic alone.
POOL_SHARE = 0.9
# CUDA_VISIBLE_DEVICES that hide all GPUs, of which dask-cuda would count one.
_HIDDEN = ("", "-1", "NoDevFiles")


def count_gpus() -> tuple[int, str]:
    """Count the GPUs that dask-cuda would use, or say why there are none."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named in _HIDDEN:
        return 0, f"CUDA_VISIBLE_DEVICES={named!r} hides all"
    try:
        from dask_cuda.utils import get_n_gpus
    except ImportError as error:
        return 0, f"dask-cuda cannot be imported ({error}): install it: {INSTALL_CUDA}"
    try:
        return int(get_n_gpus()), "this machine has none"
    except Exception as error:  # NVML's own
        return 0, f"NVML does not answer ({error})"


def choose_pool() -> dict[str, Any]:
    """Choose the memory pool of dask-cuda's workers, and when they begin to spill.

    Shares of a device's memory, the latter of the pool: dask-cuda sees only inputs and
    outputs of tasks. On an H100 of 79 GiB they are 71 and 51 GiB.
    """
    from dask_cuda.utils import has_device_memory_resource

    # dask-cuda refuses a pool without RMM, and has none for memory the host shares.
    if find_spec("rmm") is None or not has_device_memory_resource():
        return {}
    return {
        "rmm_pool_size": POOL_SHARE,
        "rmm_allocator_external_lib_list": ["cupy"],
        "device_memory_limit": OUTPUT_SHARE * POOL_SHARE,
    }
