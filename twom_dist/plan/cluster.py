"""The workers for which a plan is made."""

from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import PlanError
from ..typing import as_integer
from .memory import MemoryBudget

# Tasks of a worker that share its GPU: one launches, or reads, while another waits.
DEVICE_THREADS = 2

# No cluster has more; figures beyond would overflow a float.
_MOST = 2**20
_MOST_BYTES = 2**63


@dataclass(frozen=True)
class Cluster:
    """The workers for which a plan is made."""

    workers: int = 1
    threads: int = 1  # tasks that run at once on each
    memory: MemoryBudget = field(default_factory=MemoryBudget)  # of each

    def __post_init__(self) -> None:
        # A frozen dataclass can only be changed this way.
        fill = object.__setattr__
        fill(self, "workers", _read("n_workers", self.workers, _MOST))
        fill(self, "threads", _read("threads_per_worker", self.threads, _MOST))
        if self.memory.limit is not None:
            limit = _read("memory_limit", self.memory.limit, _MOST_BYTES)
            fill(self, "memory", replace(self.memory, limit=limit))


def _read(name: str, value: Any, most: int) -> int:
    """Return a count as an int, or refuse it under the name that plans use for it."""
    count = as_integer(value)
    if count is None or not 1 <= count <= most:
        raise PlanError(
            f"{name}={value!r} is not an integer from 1 to {most}", "", "cluster"
        )
    return count
