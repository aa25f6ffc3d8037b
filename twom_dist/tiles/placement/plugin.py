"""A scheduler plugin that places product tasks and their inputs to move the least data.

Tiles of a rectangle go to a grid of workers, tiles of a triangle where `triangle` puts
them.

Layer annotations vanish in array optimisation (dask/dask#7036), so the restrictions
are set where the graph arrives. They are loose: a worker that dies or pauses loses its
tasks to the others. An exception here is logged by the scheduler and costs traffic,
never a result.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from distributed.diagnostics.plugin import SchedulerPlugin

from ...typing import Cell
from ..graph import PANEL, PRODUCT, REDUCE, SCALING_STAGES, UPDATE
from .grids import WorkerGrid, assign_slots, balanced_grids
from .homes import choose_homes
from .triangle import TriangleMap, triangle_map

PLUGIN_NAME = "twom-placement"
# After such a pause other workers take over what the paused one has not begun.
# Shorter pauses, while a tile is written to disk, cost less than moving its inputs.
PAUSE_SECONDS = 5.0

# Stages whose tiles may be inputs of another product; and what these are decoded from.
RESULTS = (PRODUCT, UPDATE)
SUMS = (PANEL, REDUCE)
# A cell, and a layer of workers along k.
Place = tuple[int, int, int]


def _stage_and_token(key: Any) -> tuple[str, str]:
    """Split ``twom-<stage>-<token>`` of a tuple key; two empty strings otherwise."""
    return _split(key[0]) if isinstance(key, tuple) and key else ("", "")


@lru_cache(maxsize=1024)
def _split(name: Any) -> tuple[str, str]:
    if not (isinstance(name, str) and name.startswith("twom-")):
        return "", ""
    # dask names a fused chain of tasks by the stages of all of them.
    stage, token = name.split("-")[1], name.rpartition("-")[2]
    return f"twom-{stage}", token


class PlacementPlugin(SchedulerPlugin):
    """Restrict product tasks loosely to running workers."""

    name = PLUGIN_NAME
    idempotent = True

    def start(self, scheduler: Any) -> None:
        """Keep the scheduler: `transition` is not given it."""
        self.scheduler = scheduler
        self.placed: set[Any] = set()
        self.paused: dict[str, asyncio.TimerHandle] = {}

    def update_graph(self, scheduler: Any, *, tasks: list[Any], **kwargs: Any) -> None:
        """Place the products among the tasks that have just arrived."""
        products = defaultdict(list)
        for key in tasks:
            stage, token = _stage_and_token(key)
            if stage in (PRODUCT, PANEL, REDUCE) and key in scheduler.tasks:
                products[token].append(scheduler.tasks[key])
        workers = sorted(
            address
            for address, state in scheduler.workers.items()
            if state.status.name == "running"
        )
        if len(workers) > 1:
            for states in products.values():
                for task, worker in _place(states, workers):
                    task.worker_restrictions = {worker}
                    task.loose_restrictions = True
                    self.placed.add(task.key)

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any
    ) -> None:
        """Withhold placed tasks from work stealing, which ignores loose restrictions.

        Stolen product tasks doubled the traffic of 4 workers on 2 cores. Tasks of a
        worker that dies or leaves need no stealing: they go back to the scheduler.
        """
        if key not in self.placed:
            return
        if finish == "forgotten":
            self.placed.discard(key)
        stealing = self.scheduler.extensions.get("stealing")
        if finish == "processing" and stealing is not None:
            task = self.scheduler.tasks[key]
            stealing.remove_key_from_stealable(task)
            # Kept by the scheduler in older releases of distributed.
            for owner in (stealing, self.scheduler):
                for unknown in getattr(owner, "unknown_durations", {}).values():
                    unknown.discard(task)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """Lift the restrictions of tasks that were placed on a worker that has gone.

        If it was the only worker, the scheduler would keep its tasks waiting for it,
        even though their restrictions are loose.
        """
        if worker in self.paused:
            self.paused.pop(worker).cancel()
        for key in self.placed:
            task = scheduler.tasks.get(key)
            if task is not None and task.worker_restrictions == {worker}:
                task.worker_restrictions = None

    def log_event(self, topic: str, msg: Any) -> None:
        """Watch for workers that pause or go on; `topic` is a worker's address."""
        if not isinstance(msg, dict) or msg.get("action") != "worker-status-change":
            return
        if topic in self.paused:
            self.paused.pop(topic).cancel()
        if msg["status"] == "paused":
            self._let_go_later(topic)

    def _let_go_later(self, worker: str) -> None:
        loop = asyncio.get_running_loop()
        self.paused[worker] = loop.call_later(PAUSE_SECONDS, self._let_go, worker)

    def _let_go(self, worker: str) -> None:
        """Move the tasks that a paused worker has not begun to the others.

        The scheduler leaves them where they are, and work stealing takes no notice of a
        worker with fewer tasks than threads, nor of tasks withheld from it.
        """
        state = self.scheduler.workers.get(worker)
        stealing = self.scheduler.extensions.get("stealing")
        if state is None or state.status.name != "paused" or stealing is None:
            self.paused.pop(worker, None)
            return
        loads = {ws: len(ws.processing) for ws in self.scheduler.running}
        for task in list(state.processing) if loads else ():
            placed = task.key in self.placed
            if not placed and not _stage_and_token(task.key)[0]:
                continue
            other = min(loads, key=loads.__getitem__)
            loads[other] += 1
            if placed:
                task.worker_restrictions = {other.address}
            # A worker does not give away a task that runs already.
            stealing.move_task_request(task, state, other)
        self._let_go_later(worker)


def _place(states: list[Any], workers: list[str]) -> Iterator[tuple[Any, str]]:
    """Place the tasks of one product, then its input tiles and what scales them.

    A product that the user has placed already is left as it is.
    """
    if any(map(_is_restricted, states)):
        return
    needed = _collect_needed(states)
    own = _stage_and_token(states[0].key)[1]
    uses = {task: cells for task, cells in needed.items() if _is_tile(task, own)}
    seating = _choose({_cell(ts) for ts in states}, uses, workers)
    for ts in states:
        worker = seating.workers[seating.slots[_cell(ts)]]
        yield ts, worker
        for dependent in ts.dependents:
            # The same tile, or its mirror image.
            updates = _stage_and_token(dependent.key)[0] == UPDATE
            if updates and not _is_restricted(dependent):
                yield dependent, worker
    seats = {
        tile: {seating.workers[slot] for slot in slots}
        for tile, slots in seating.needs.items()
    }
    scaling = {
        task: [x for x in task.dependencies if x in seats]
        for task in _list_scaling(needed)
    }
    held = {tile: [ws.address for ws in tile.who_has or ()] for tile in seats}
    groups = [*scaling.values(), *([tile] for tile in seats)]
    homes = choose_homes(groups, seats, held)
    fresh = (x for x in homes.items() if _stage_and_token(x[0].key)[0] not in RESULTS)
    yield from with_ancestors([*fresh])
    for task, tiles in scaling.items():
        if tiles:
            yield task, homes[tiles[0]]


def _is_restricted(ts: Any) -> bool:
    """Tell whether somebody else has said where a task may run."""
    return bool(
        ts.worker_restrictions or ts.host_restrictions or ts.resource_restrictions
    )


def _cell(ts: Any) -> Place:
    """Return the cell of a task, and the layer of workers along k where it belongs."""
    i, j, *rest = ts.key[1:]
    if not rest:
        # A tile of C is decoded where the sums of all of k are.
        sums = (x.key[3] for x in ts.dependencies if _stage_and_token(x.key)[0] in SUMS)
        rest = [next(sums, 0)]
    return i, j, rest[0]


def _collect_needed(states: list[Any]) -> dict[Any, set[Place]]:
    """Find all that the tasks of one product take, and for which cells and layers."""
    needed: dict[Any, set[Place]] = defaultdict(set)
    for ts in states:
        place = _cell(ts)
        for task in ts.dependencies:
            needed[task].add(place)
    return needed


def _is_tile(task: Any, own: str) -> bool:
    """Tell a chunk of A, B or C from the intermediate results of a product."""
    stage, token = _stage_and_token(task.key)
    return not stage or (stage in RESULTS and token != own)


def _list_scaling(needed: Iterable[Any]) -> list[Any]:
    """List the scaling tasks of one product that nobody has placed."""
    found: dict[Any, None] = {}
    tasks = [*needed]
    while tasks:
        scaling = [
            task
            for task in dict.fromkeys(tasks)
            if task not in found
            and _stage_and_token(task.key)[0] in SCALING_STAGES
            and not _is_restricted(task)
        ]
        found |= dict.fromkeys(scaling)
        tasks = [before for task in scaling for before in task.dependencies]
    return [*found]


class _Seating(NamedTuple):
    """A layout on the workers: slots of the cells, and a worker for each slot."""

    moved: int
    slots: dict[Place, int]
    needs: dict[Any, set[int]]  # an input tile -> the slots that need it
    workers: list[str]


def _choose(
    places: set[Place], uses: dict[Any, set[Place]], workers: list[str]
) -> _Seating:
    """Choose layout and workers: least load, then fewest bytes that must move."""
    mt, nt, layers = (1 + max(indices) for indices in zip(*places, strict=True))
    cells = {place[:2] for place in places}
    own = max(1, len(workers) // layers)
    if mt > 1 and _is_triangle(cells, mt):
        return _seat(triangle_map(mt, own), own, places, uses, workers)
    grids = balanced_grids(own, mt, nt)
    grids.sort(key=lambda grid: abs(grid.pr - grid.pc))
    seatings = [_seat(grid, own, places, uses, workers) for grid in grids]
    return min(seatings, key=lambda seating: seating.moved)


def _is_triangle(cells: set[Cell], count: int) -> bool:
    """Tell whether these are all cells on one side of the diagonal, and on it."""
    if len(cells) != count * (count + 1) // 2:
        return False
    return all(i >= j for i, j in cells) or all(i <= j for i, j in cells)


def _seat(
    layout: WorkerGrid | TriangleMap,
    own: int,
    places: set[Place],
    uses: dict[Any, set[Place]],
    workers: list[str],
) -> _Seating:
    """Give each slot the worker that holds most of what it needs.

    `own`: slots of a layer; each is laid out alike.
    """
    slots = {
        (i, j, layer): (layer * own + layout.slot(i, j)) % len(workers)
        for i, j, layer in places
    }
    needs = {tile: {slots[place] for place in uses[tile]} for tile in uses}
    # One for each worker, though a layout may have fewer slots.
    gains: list[dict[str, int]] = [defaultdict(int) for _ in workers]
    total = 0
    for tile, slots_of_tile in needs.items():
        nbytes = tile.get_nbytes()
        total += nbytes * len(slots_of_tile)
        for holder in tile.who_has or ():
            for slot in slots_of_tile:
                gains[slot][holder.address] += nbytes
    seats = assign_slots(gains, workers)
    moved = total - sum(gains[s][w] for s, w in enumerate(seats))
    return _Seating(moved, slots, needs, seats)


def with_ancestors(tiles: list[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """Yield tiles with their workers, and their ancestors that one worker alone needs.

    A task is followed once all of its dependents are on one worker, so that each edge
    of the graph is looked at once.
    """
    waiting: dict[Any, int] = {}
    homes: dict[Any, set[str]] = defaultdict(set)
    found = [(tile, worker) for tile, worker in tiles if _may_be_placed(tile)]
    while found:
        task, worker = found.pop()
        yield task, worker
        for needed in task.dependencies:
            key = needed.key
            waiting[key] = waiting.get(key, len(needed.dependents)) - 1
            homes[key].add(worker)
            alone = not waiting[key] and len(homes[key]) == 1
            if alone and not _stage_and_token(key)[0] and _may_be_placed(needed):
                found.append((needed, worker))


def _may_be_placed(task: Any) -> bool:
    """Tell whether a task is still to be computed, and nobody has said where."""
    to_be_computed = task.state in ("released", "waiting", "no-worker")
    return to_be_computed and not task.who_has and not _is_restricted(task)
