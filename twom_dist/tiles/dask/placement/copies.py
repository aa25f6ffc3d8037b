"""Tiles that tasks take from other workers: they come early, and go early."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ..graph import PRODUCT, PRODUCT_STAGES, SWEEP
from .assignment import stage_and_token

# What the logs of workers say of tiles that come before their task, and are dropped.
COPIES = "twom-copies"
# Stages before the sweeps that begin once tiles are analysed.
ANALYSED = ("twom-shifts", "twom-spec", "twom-exponents")


class Copies:
    """Tiles that workers receive for the tasks that are placed there."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        # By a task: its worker, and the tiles that have to come there.
        self._received: dict[Any, tuple[str, list[Any]]] = {}
        # By a tile and a host: where it was sought last.
        self._sought: dict[Any, str] = {}
        # By a product's token: the first steps of its sweeps.
        self._first: dict[str, list[Any]] = defaultdict(list)

    def expect(
        self, received: Mapping[Any, list[Any]], workers: Mapping[Any, str]
    ) -> None:
        """Note the tiles that tasks of a product have to receive."""
        known = defaultdict[str, set[Any]](set)
        for worker, tiles in self._received.values():
            known[worker].update(tiles)
        for task, tiles in received.items():
            worker, needed = workers[task], task.dependencies
            # A copy fetched for another product is not owned by this worker either.
            own = {*tiles, *(x for x in needed if x.key in known[worker])}
            self._received[task.key] = worker, [tile.key for tile in own]
            stage, token = stage_and_token(task.key)
            before = {stage_and_token(x.key)[0] for x in needed}
            if stage == SWEEP and before.isdisjoint(PRODUCT_STAGES):
                self._first[token].append(task.key)

    def fetch_first(self, stage: str, token: str) -> None:
        """Have workers fetch tiles for their first steps once all tiles are analysed.

        They arrive while the scheduler is busy with the rest of the analysis.
        """
        if stage in ANALYSED:
            for key in self._first.pop(token, ()):
                self._fetch(key)

    def fetch_ahead(self, task: Any) -> None:
        """Have a worker fetch tiles for the next step of sweeps as it begins one.

        dask would fetch them once that step is done, and have the worker wait for them.
        """
        if stage_and_token(task.key)[0] not in (SWEEP, PRODUCT):
            return
        worker = task.processing_on.address
        after = sorted(task.dependents, key=lambda x: x.priority)
        for step in after:
            own, tiles = self._received.get(step.key, ("", ()))
            if own == worker and tiles:
                self._fetch(step.key)
            elif own and not tiles:
                # Sums that go elsewhere, or come from there, before the next sweep.
                after += step.dependents

    def _fetch(self, key: Any) -> None:
        """Have the worker of a task fetch the tiles that it takes.

        All workers of a host seek a tile at one holder, also later, when there are
        more: so it enters the host once.
        """
        worker, tiles = self._received.get(key, ("", []))
        state = self._scheduler.workers.get(worker)
        found = [self._scheduler.tasks.get(tile) for tile in tiles]
        needed = [x for x in found if x and x.who_has and state not in x.who_has]
        if not needed or state is None:
            return

        def seek(tile: Any) -> str:
            own = tile.key, state.host
            before = self._sought.get(own)

            def rank(ws: Any) -> Any:
                far, new = ws.host != state.host, ws.address != before
                return far, new, hash((own, ws.address))

            found = self._sought[own] = str(min(tile.who_has, key=rank).address)
            return found

        # As `Scheduler.request_acquire_replicas` has it, which names all holders.
        message = {
            "op": "acquire-replicas",
            "who_has": {x.key: [seek(x)] for x in needed},
            "nbytes": {x.key: x.nbytes for x in needed},
            "stimulus_id": COPIES,
        }
        self._scheduler.worker_send(worker, message)

    def end(self, key: Any, finish: str) -> None:
        """Have a worker drop tiles once a task has ended; forget one that is gone."""
        worker, tiles = self._received.pop(key, ("", []))
        if not self._received:
            self._sought.clear()
        if finish == "forgotten":
            self._first.pop(stage_and_token(key)[1], None)
        elif tiles:
            # After the messages of this event, which may hand out a task with them. A
            # worker may still run a task that is forgotten: the memory manager drops
            # what it has received.
            asyncio.get_running_loop().call_soon(self._drop, worker, tiles)

    def _drop(self, worker: str, tiles: list[Any]) -> None:
        """Have a worker drop tiles that a product no longer needs there.

        Those that another task there needs stay: the worker would stop without them.
        """
        state = self._scheduler.workers.get(worker)
        found = (self._scheduler.tasks.get(tile) for tile in tiles)
        keys = [
            task.key
            for task in found
            if task is not None
            and state in (task.who_has or ())
            and len(task.who_has) > 1
            and not any(
                waiter.processing_on is state or waiter.worker_restrictions == {worker}
                for waiter in task.waiters or ()
            )
        ]
        if keys:
            self._scheduler.request_remove_replicas(worker, keys, stimulus_id=COPIES)
