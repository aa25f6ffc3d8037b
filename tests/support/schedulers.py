"""A stand-in for dask's scheduler, as far as placement asks it."""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from dask.core import get_deps, toposort

from twom_dist.tiles.placement.plugin import PlacementPlugin


class FakeTask:
    """What the placement reads of a task of the scheduler."""

    def __init__(
        self,
        key: Any,
        *dependencies: "FakeTask",
        state: str = "waiting",
        restricted: Iterable[str] = (),
        held: Sequence[Any] = (),
    ) -> None:
        self.key, self.state, self.who_has = key, state, held
        self.dependencies, self.dependents = dependencies, list[FakeTask]()
        self.worker_restrictions = set(restricted)
        self.host_restrictions = self.resource_restrictions = self.run_spec = None
        for needed in dependencies:
            needed.dependents.append(self)

    def get_nbytes(self) -> int:
        """Return a size."""
        return 1000


WORKERS = "abcdef"


class FakeScheduler:
    """Workers by their addresses, and the tasks of a lazy array.

    `held`: the worker that holds each chunk of the inputs.
    """

    def __init__(
        self, array: Any, count: int, held: Mapping[Any, str] | None = None
    ) -> None:
        states = {
            w: SimpleNamespace(address=w, status=SimpleNamespace(name="running"))
            for w in WORKERS[:count]
        }
        self.workers, self.extensions = states, dict[str, Any]()
        self.tasks: dict[Any, Any] = {}
        graph = dict(array.__dask_graph__())
        dependencies, _ = get_deps(graph)
        for key in toposort(graph):
            needed = (self.tasks[x] for x in sorted(dependencies[key], key=str))
            holders = [states[w] for w in (held or {}).get(key, "")]
            state = "memory" if holders else "waiting"
            self.tasks[key] = FakeTask(key, *needed, state=state, held=holders)

    def place(self) -> PlacementPlugin:
        """Have all tasks placed."""
        plugin = PlacementPlugin()
        plugin.start(self)
        plugin.update_graph(self, tasks=sorted(self.tasks, key=str))
        return plugin

    def homes(self, name: str) -> dict[Any, str]:
        """List the worker of each placed task of a name, by the rest of its key."""
        return {
            key[1:]: worker
            for key, task in self.tasks.items()
            if key[0] == name
            for worker in task.worker_restrictions or ()
        }
