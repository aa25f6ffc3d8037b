"""A scheduler plugin that places product tasks so that workers move and hold little.

Layer annotations vanish in array optimisation (dask/dask#7036), so the restrictions are
set when the graph arrives. If a worker dies or pauses, other workers that the user
allows get its tasks. The scheduler logs exceptions in this plugin; they cost traffic,
never a result.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from math import gcd, inf
from typing import Any, NamedTuple

from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from ..graph import PANEL, PRODUCT, PRODUCT_STAGES, SCALING_STAGES, SWEEP
from .assignment import SUMS, is_restricted, place_product, stage_and_token
from .copies import Copies
from .grids import node_size
from .input_homes import READER

PLUGIN_NAME = "twom-placement"
# States of tasks of an earlier graph that is computed again.
_BEGUN = ("processing", "memory")
# How often workers that run short are looked for, and the tasks of each of its threads
# that a worker keeps: one that runs and one that follows.
REBALANCE_SECONDS = 0.1
KEPT = 2
# Slots of a worker that has the most threads.
MOST_SLOTS = 8
# Seconds of work from which on it pays to move some: inputs are sent once more.
PAYS_SECONDS = 0.3


class Limits(NamedTuple):
    """Where a task may run, by the scheduler's names."""

    worker_restrictions: set[str] | None = None
    host_restrictions: set[str] | None = None
    resource_restrictions: Mapping[str, float] | None = None
    loose_restrictions: bool = True

    def apply(self, task: Any) -> None:
        """Limit a task so; the resources that it takes stay."""
        task.worker_restrictions, task.host_restrictions = self[:2]
        task.loose_restrictions = self.loose_restrictions


FREE = Limits()


class PlacementPlugin(SchedulerPlugin):
    """Restrict product tasks to running workers."""

    name = PLUGIN_NAME
    idempotent = True

    def start(self, scheduler: Any) -> None:
        """Keep the scheduler, and placed tasks from work stealing.

        Stealing ignores loose restrictions, and doubled the traffic of 4 workers on 2
        cores. Tasks of a worker that dies or leaves need none: they go back to the
        scheduler.
        """
        self.scheduler = scheduler
        # By a task: where its user lets it run.
        self.placed: dict[Any, Limits] = {}
        self.copies = Copies(scheduler)
        if (stealing := scheduler.extensions.get("stealing")) is not None:
            self._put = stealing.put_key_in_stealable
            stealing.put_key_in_stealable = self._offer
        callback = PeriodicCallback(self.rebalance, 1000 * REBALANCE_SECONDS)
        scheduler.periodic_callbacks[PLUGIN_NAME] = callback
        scheduler.start_periodic_callbacks()

    def update_graph(
        self,
        scheduler: Any,
        *,
        tasks: list[Any],
        annotations: Mapping[str, Mapping[Any, str]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Place the products among the tasks that have just arrived."""
        arrived = [scheduler.tasks[key] for key in tasks if key in scheduler.tasks]
        own = [x for x in arrived if is_restricted(x) and x.key not in self.placed]
        for task in own:
            self.placed[task.key] = Limits(*(getattr(task, x) for x in Limits._fields))
            FREE.apply(task)
        try:
            self._place_all(arrived, (annotations or {}).get(READER, {}))
        finally:
            for task in own:
                if not task.worker_restrictions:
                    self.placed.pop(task.key).apply(task)

    def _place_all(self, arrived: list[Any], readers: Mapping[Any, str]) -> None:
        products, scaling = defaultdict(list), defaultdict(list)
        for task in arrived:
            # A worker may have gone since it was chosen.
            if readers.get(task.key) in self.scheduler.workers:
                self._restrict(task, readers[task.key])
            stage, token = stage_and_token(task.key)
            if stage in PRODUCT_STAGES:
                products[token].append(task)
            elif stage in SCALING_STAGES:
                scaling[token].append(task)
        for states in products.values():
            self._place(states)
        if len(self.scheduler.running) > 1:
            for token in scaling.keys() - products.keys():
                self._place_look(scaling[token])
        for token, states in products.items():
            # The first step of every worker may wait for what scales.
            goes_along_k = any(stage_and_token(x.key)[0] == SWEEP for x in states)
            for task in scaling[token] if goes_along_k else ():
                if task.state not in _BEGUN:
                    *before, place = task.priority
                    task.priority = (*before, place - len(arrived))

    def _place(self, states: list[Any]) -> None:
        """Place a product on the workers that its user allows, if there are several."""
        limits = self.placed.get(states[0].key, FREE)
        running = [ws for ws in self.scheduler.running if self._may_run(limits, ws)]
        same = all(self.placed.get(x.key, FREE) == limits for x in states)
        if len(running) < 2 or not same:
            return
        running.sort(key=lambda ws: (ws.host, ws.address))
        threads = [ws.nthreads for ws in running]
        # A worker of more threads has more slots, and none has many.
        unit = max(gcd(*threads), max(threads) / MOST_SLOTS)
        slots = [ws for ws in running for _ in range(max(1, round(ws.nthreads / unit)))]
        node = node_size(ws.host for ws in slots)
        placed = place_product(states, [ws.address for ws in slots], node)
        for task, worker in placed.workers.items():
            self._restrict(task, worker)
        received = placed.received.items()
        waiting = {x: tiles for x, tiles in received if x.state not in _BEGUN}
        self.copies.expect(waiting, placed.workers)

    def _place_look(self, states: list[Any]) -> None:
        """Keep tasks that analyse tiles of one worker there: tiles are large."""
        for task in states:
            tiles = [x for x in task.dependencies if not stage_and_token(x.key)[0]]
            holders = {ws.address for tile in tiles for ws in tile.who_has or ()}
            holders.update(*(tile.worker_restrictions or () for tile in tiles))
            if len(holders) == 1:
                self._restrict(task, *holders)

    def _may_run(self, limits: Limits, worker: Any) -> bool:
        """Return whether a task may run on a worker, as the scheduler has it."""
        valid = self.scheduler.valid_workers(limits)
        # What is preferred counts while any of it runs.
        is_open = valid is None or (limits.loose_restrictions and not valid)
        return is_open or worker in valid

    def _restrict(self, task: Any, worker: str) -> None:
        """Have a task run on a worker, if its user lets it."""
        limits = self.placed.get(task.key, FREE)
        if self._may_run(limits, self.scheduler.workers.get(worker)):
            self.placed[task.key] = limits
            # The scheduler gives a loose one to any worker if this one has gone.
            Limits({worker}, loose_restrictions=limits is FREE).apply(task)

    def _lift(self, task: Any) -> None:
        """Let a task that has no worker run wherever its user lets it."""
        if task.state == "no-worker" and task.key in self.placed:
            self.placed[task.key].apply(task)
            self.scheduler.transitions({task.key: "processing"}, PLUGIN_NAME)

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any
    ) -> None:
        """Fetch tiles for tasks that begin, and drop those of tasks that have ended."""
        if finish == "processing":
            self.copies.fetch_first(*stage_and_token(key))
        if finish == "waiting" or key not in self.placed:
            return
        task = self.scheduler.tasks[key]
        if finish == "no-worker":
            # Not within this event.
            asyncio.get_running_loop().call_soon(self._lift, task)
        if finish == "processing":
            self.copies.fetch_ahead(task)
        if finish in ("memory", "forgotten"):
            self.copies.end(key, finish)
        if finish == "forgotten":
            del self.placed[key]

    def _offer(self, task: Any) -> None:
        """Let other workers steal a task that is not placed."""
        if task.key not in self.placed:
            self._put(task)

    def rebalance(self) -> None:
        """Give workers that run short the last tasks of those with most for a thread.

        Those that came late, and those beside a slow or a paused one: the scheduler
        leaves tasks where they are, and stealing is kept from those that are placed.
        """
        if self.scheduler.plugins.get(self.name) is not self:
            self.scheduler.periodic_callbacks.pop(PLUGIN_NAME).stop()  # it was removed
            self.placed.clear()
            return
        stealing = self.scheduler.extensions.get("stealing")
        every, running = self.scheduler.workers, self.scheduler.running
        if stealing is None or not (self.placed or len(every) > len(running)):
            return
        kept = {ws: KEPT * ws.nthreads for ws in running}
        found = {
            ws: len(ws.processing) - len(ws.long_running) + stealing.in_flight_tasks[ws]
            for ws in every.values()
        }
        short = [ws for ws in kept if found[ws] < kept[ws]]
        # A worker that is paused begins nothing.
        rich = [ws for ws in found if found[ws] > kept.get(ws, 0)] if short else []
        tasks = {ws: self._movable(ws, stealing, ws not in kept) for ws in rich}

        def seconds(ws: Any) -> float:
            """Return how long a worker has to go, without the tasks that it keeps."""
            if ws not in kept:
                return inf
            # -1 while none has ended.
            each = max(0.0, float(tasks[ws][-1].prefix.duration_average))
            return float(each * (found[ws] - kept[ws]) / ws.nthreads)

        while True:
            rich = [x for x in rich if tasks[x] and seconds(x) > PAYS_SECONDS]
            short = [ws for ws in short if found[ws] < kept[ws]]
            if not (short and rich):
                return
            giver = max(rich, key=lambda ws: found[ws] / ws.nthreads)
            task = tasks[giver].pop()
            limits = self.placed.get(task.key, FREE)
            takers = [ws for ws in short if self._may_run(limits, ws)]
            if not takers:
                continue
            taker = min(takers, key=lambda ws: found[ws] / ws.nthreads)
            for own in self._list_chain(task):
                if own.key in self.placed:
                    self._restrict(own, taker.address)
            # A worker does not give away a task that runs already.
            stealing.move_task_request(task, giver, taker)
            found[giver] -= 1
            found[taker] += 1

    def _movable(self, worker: Any, stealing: Any, is_paused: bool) -> list[Any]:
        """List the tasks that a worker may give away, the first to be given last.

        Sums along k stay where they were begun, unless their worker is paused.
        """

        def may_move(task: Any) -> bool:
            is_placed, stage = task.key in self.placed, stage_and_token(task.key)[0]
            if is_paused:
                # Inputs as well, without which others wait.
                return is_placed or (stage != "" and not is_restricted(task))
            begun = (stage_and_token(x.key)[0] in SUMS for x in task.dependencies)
            return is_placed and stage in (PRODUCT, PANEL, SWEEP) and not any(begun)

        begun = {*stealing.in_flight, *worker.executing, *worker.long_running}
        movable = (x for x in worker.processing if x not in begun and may_move(x))
        return sorted(movable, key=lambda x: x.priority)

    def _list_chain(self, task: Any) -> list[Any]:
        """List a task and those that continue it, on the same worker, to its tiles."""
        chain, stage, token = [task], *stage_and_token(task.key)
        for own in chain:
            chain += [
                x
                for x in own.dependents
                if x.key in self.placed
                and x.worker_restrictions == task.worker_restrictions
                and stage_and_token(x.key)[1] == token != ""
                # Not the sweep that waits for this one.
                and (
                    {*x.key[1:3]} == {*task.key[1:3]}
                    or (stage == SWEEP != stage_and_token(x.key)[0])
                )
                and x not in chain
            ]
        return chain
