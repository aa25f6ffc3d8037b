"""A stand-in for dask's scheduler, as far as placement asks it."""

import asyncio
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from dask.core import get_deps, toposort

from twom_dist.api import plans
from twom_dist.run import lazy
from twom_dist.tiles.dask.placement.plugin import PlacementPlugin


@contextmanager
def planned_for(cluster):
    """Have products of dask arrays planned for workers that are not there."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (lazy, plans):
            patch.setattr(module, "current_cluster", lambda *_: cluster)
        yield


class FakeWorker(SimpleNamespace):
    """What the placement reads of a worker."""

    __hash__, __eq__ = object.__hash__, object.__eq__


class FakeTask:
    """What the placement reads of a task of the scheduler."""

    def __init__(self, key, dependencies, held):
        self.key, self.who_has = key, held
        self.state = "memory" if held else "waiting"
        self.dependencies, self.dependents = [*dependencies], list[FakeTask]()
        self.worker_restrictions = set()
        self.host_restrictions = self.resource_restrictions = self.run_spec = None
        self.loose_restrictions = False
        self.waiters, self.nbytes = list[Any](), 1000
        self.processing_on, self.priority = None, (0, 1, 1)
        for needed in self.dependencies:
            needed.dependents.append(self)
            needed.waiters.append(self)

    def get_nbytes(self):
        return 1000


class FakeScheduler:
    """Workers a, b, ... and the tasks of a lazy array, with their placement.

    `held`: the workers that hold a chunk of the inputs; `hosts`: so many share the
    workers, in turns. `removed`, `fetched`: copies of chunks that workers were asked to
    drop, and to get; `handed_out`: tasks for which a worker was looked for again.
    """

    def __init__(self, array, count, held=None, hosts=1):
        running = SimpleNamespace(name="running")
        self.workers = {
            w: FakeWorker(address=w, host=f"{i % hosts}", nthreads=2, status=running)
            for i, w in enumerate(map(chr, range(ord("a"), ord("a") + count)))
        }
        self.running = [*self.workers.values()]
        self.periodic_callbacks = dict[str, Any]()
        self.extensions, self.tasks = dict[str, Any](), dict[Any, Any]()
        self.removed, self.fetched = (list[tuple[str, Any]]() for _ in range(2))
        self.handed_out, self.sought = list[Any](), dict[Any, str]()
        graph = dict(array.__dask_graph__())
        dependencies, _ = get_deps(graph)
        for key in toposort(graph):
            needed = (self.tasks[x] for x in sorted(dependencies[key], key=str))
            holders = [self.workers[w] for w in (held or {}).get(key, "")]
            self.tasks[key] = FakeTask(key, needed, holders)
        self.plugin = PlacementPlugin()
        self.plugin.start(self)

    def place(self, tasks=None, **given):
        arrived = sorted(self.tasks if tasks is None else tasks, key=str)
        self.plugin.update_graph(self, tasks=arrived, **given)

    def finish(self, keys, state="memory"):
        """Tell of tasks that have ended, or go to a state, one after the other."""

        async def tell():
            for key in keys:
                for needed in self.tasks[key].dependencies:
                    needed.waiters = [x for x in needed.waiters if x.key != key]
                self.plugin.transition(key, "processing", state)
                await asyncio.sleep(0)

        asyncio.run(tell())

    def valid_workers(self, task):
        """List the workers that a task is restricted to; None: it is not."""
        workers, hosts = task.worker_restrictions, task.host_restrictions
        own = [
            ws
            for ws in self.running
            if ws.address in (workers or ()) or ws.host in (hosts or ())
        ]
        return own if workers or hosts else None

    def transitions(self, recommendations, _):
        self.handed_out += recommendations

    def start_periodic_callbacks(self):
        """Leave workers alone."""

    def request_remove_replicas(self, worker, keys, **_):
        self.removed += [(worker, key) for key in keys]

    def worker_send(self, worker, message):
        assert message["op"] == "acquire-replicas"
        self.fetched += [(worker, key) for key in message["who_has"]]
        self.sought |= {(worker, key): x for key, (x,) in message["who_has"].items()}

    def homes(self, name):
        """List the worker of each placed task of a name, by the rest of its key."""
        return {
            key[1:]: worker
            for key, task in self.tasks.items()
            if key[0] == name
            for worker in task.worker_restrictions or ()
        }
