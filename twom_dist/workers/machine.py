"""The memory and the cores of this machine that this process may use."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from time import monotonic, process_time

from dask.system import CPU_COUNT

# Where Linux names the control groups of a process, and where it mounts their limits.
OWN_GROUPS, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


@cache
def machine_memory() -> int:
    """Return the bytes of this machine, or of the narrowest group of this process.

    A batch system limits a group above the process's own one: all of them count.
    """
    own = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([own, *group_limits(OWN_GROUPS, MOUNTED)])


def read_clocks(uptime: Path = Path("/proc/uptime")) -> tuple[float, float]:
    """Read the time, and the seconds for which other programs have kept cores busy.

    The second is up to a constant, and 0 where the system does not tell. Other programs
    may take what is not ours.
    """
    try:
        idle = float(uptime.read_text().split()[1])
    except OSError:
        idle = 0.0
    busy = CPU_COUNT * monotonic() - idle - process_time()
    return monotonic(), busy if idle > 0 else 0.0


def group_limits(groups: Path, mounted: Path) -> Iterator[int]:
    """List the memory limits of control groups, of both versions, and of all above."""
    try:
        lines = os.fsdecode(groups.read_bytes()).splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, file = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            top, file = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            try:
                text = (folder / file).read_text().strip()
            except OSError:  # not ours to see from inside of a container
                text = "max"
            if text.isdecimal() and int(text) > 0:
                yield int(text)
            if folder == top:
                break
