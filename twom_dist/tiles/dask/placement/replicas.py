"""Copies of tiles that workers hold for the tasks of a product."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Any


class ReplicaCounts:
    """For each worker the tiles that it has received, and the tasks that need them.

    The scheduler's memory manager looks for such copies every two seconds; a product of
    GPUs is done by then, and a worker that went along k would hold all that it had got.
    """

    def __init__(self) -> None:
        # A task -> its worker, and the tiles that came from elsewhere.
        self._tasks: dict[Any, tuple[str, list[Any]]] = {}
        self._waiting: dict[str, Counter[Any]] = defaultdict(Counter)

    def watch(self, task: Any, worker: str, tiles: Iterable[Any]) -> None:
        """Expect a task on a worker that does not hold these tiles itself."""
        own = list(tiles)
        self.done(task)
        if own:
            self._tasks[task] = worker, own
            self._waiting[worker].update(own)

    def of(self, worker: str) -> Collection[Any]:
        """Return the tiles that tasks on a worker wait for."""
        return self._waiting.get(worker, ())

    def done(self, task: Any) -> tuple[str, list[Any]]:
        """Return the tiles that a worker no longer needs after this task."""
        if task not in self._tasks:
            return "", []
        worker, tiles = self._tasks.pop(task)
        waiting, dropped = self._waiting[worker], []
        for tile in tiles:
            waiting[tile] -= 1
            if waiting[tile] <= 0:
                del waiting[tile]
                dropped.append(tile)
        if not waiting:
            del self._waiting[worker]
        return worker, dropped
