"""What this machine gives: cores, memory, and disk for what does not fit."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from .report import Finding, failure, fine, warning

# File systems that are memory.
_IN_MEMORY = ("tmpfs", "ramfs")


def check_cores() -> Iterator[Finding]:
    """Compare the threads of a product with the cores that the system grants."""
    from dask.system import CPU_COUNT

    from ..kernels.cpu.threads import available_cores, configured_threads

    threads = configured_threads() or available_cores()
    found = f"{CPU_COUNT} of {os.cpu_count()} granted, {threads} used by one product"
    if threads > CPU_COUNT:
        # The quota of a cgroup does not show in the affinity.
        advice = f"set twom-dist.threads to {CPU_COUNT} in dask.config"
        yield warning("cores", found, advice)
    else:
        yield fine("cores", found)


def check_memory() -> Iterator[Finding]:
    """Compare what workers would share with what is left."""
    from dask.utils import format_bytes
    from distributed.system import MEMORY_LIMIT

    memory = psutil.virtual_memory()
    found = (
        f"{format_bytes(MEMORY_LIMIT)} of {format_bytes(memory.total)} granted, "
        f"{format_bytes(memory.available)} available"
    )
    if 2 * memory.available < MEMORY_LIMIT:
        advice = "give workers a memory limit: they count on all that is granted"
        yield warning("memory", found, advice)
    else:
        yield fine("memory", found)


def check_spilling() -> Iterator[Finding]:
    """Try the folder where workers started here put what does not fit in memory."""
    import dask
    from dask.utils import format_bytes
    from distributed.system import MEMORY_LIMIT

    name = "spill folder"
    advice = "set temporary-directory in dask.config to a folder on a local disk"
    folder = Path(dask.config.get("temporary-directory") or tempfile.gettempdir())
    folder = folder.absolute()
    # Workers make what is missing of the path.
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        found = f"{folder} cannot be written ({error.strerror})"
        yield failure(name, found, advice)
        return
    kind = _file_system(existing.resolve())
    free = psutil.disk_usage(str(existing)).free
    found = f"{folder} ({kind}), {format_bytes(free)} free"
    if kind in _IN_MEMORY:
        yield warning(name, f"{found}: spilling there frees no memory", advice)
    elif free < MEMORY_LIMIT:
        yield warning(name, f"{found}: less than the workers' memory", advice)
    else:
        yield fine(name, found)


def _file_system(path: Path) -> str:
    """Name the kind of file system that a path lies on."""
    kinds = {x.mountpoint: x.fstype for x in psutil.disk_partitions(all=True)}
    mounts = (str(x) for x in (path, *path.parents))
    return next((kinds[x] for x in mounts if x in kinds), "unknown file system")
