"""The layer of a result's tasks in a dask graph, which dask can clone."""

from collections.abc import Mapping, Set
from typing import Any

from dask.base import clone_key
from dask.graph_manipulation import chunks
from dask.highlevelgraph import MaterializedLayer

from ..tiles.dask.graph import Key
from ..tiles.dask.task_spec import Task, TaskRef


class TileLayer(MaterializedLayer):
    """Tasks by key; `name` is that of the result.

    dask's own layers do not look for references inside of task objects when they are
    cloned (dask 2026.8): copies would ask for tasks that are not there.
    """

    def __init__(self, name: str, tasks: Mapping[Key, Task]) -> None:
        super().__init__(tasks)
        self.name = name

    def clone(
        self, keys: Set[Any], seed: Any, bind_to: Any = None
    ) -> tuple["TileLayer", bool]:
        """Return the layer with new keys; tell whether tasks wait for `bind_to`.

        `keys`: those that change, here and in other layers. The tasks that take none of
        them are those that wait.
        """
        name = clone_key(self.name, seed)
        token = name.rpartition("-")[2]

        def rename(key: Any) -> Any:
            if key not in self.mapping:
                return clone_key(key, seed)
            # One token for all stages: placement knows them by it.
            return (f"{key[0].rpartition('-')[0]}-{token}", *key[1:])

        tasks, bound = {}, False
        for key, task in self.mapping.items():
            if key not in keys:
                tasks[key] = task
                continue
            changed = {x: rename(x) for x in (key, *task.dependencies) if x in keys}
            new = task.substitute(changed, changed[key])
            if bind_to is not None and len(changed) == 1:
                kind = type(new) if isinstance(new, Task) else Task
                new, bound = kind(new.key, chunks.bind, new, TaskRef(bind_to)), True
            tasks[new.key] = new
        return TileLayer(name, tasks), bound
