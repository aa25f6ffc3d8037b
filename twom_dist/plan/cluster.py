"""The workers of a plan."""

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from ..errors import PlanError
from ..memory import MemoryBudget

# What plans call them.
_NAMES = ("workers", "threads_per_worker", "worker_memory")


@dataclass(frozen=True)
class Cluster:
    """The workers that a plan is made for.

    Attributes
    ----------
    workers, threads : int
        Processes, and tasks that run side by side on each.
    memory : MemoryBudget
        Of each worker.
    """

    workers: int = 1
    threads: int = 1
    memory: MemoryBudget = field(default_factory=MemoryBudget)

    def __post_init__(self) -> None:
        limit = self.memory.limit
        given: dict[str, Any] = {
            "workers": self.workers,
            "threads_per_worker": self.threads,
        }
        given |= {} if limit is None else {"worker_memory": limit}
        for name, value in given.items():
            if not isinstance(value, Integral) or value < 1:
                raise PlanError(
                    f"{name}={value!r} is not a positive integer",
                    "Give the number of bytes" if name == "worker_memory" else "",
                    "cluster",
                )
