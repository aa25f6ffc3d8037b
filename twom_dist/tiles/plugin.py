"""A scheduler plugin that puts product tasks, and their inputs, where they move least.

Tiles of a rectangle go to a grid of workers, tiles of a triangle where `tiles.triangle`
puts them.

Layer annotations vanish in array optimisation (dask/dask#7036), so the restrictions
are set where the graph arrives. They are loose: a worker that dies or pauses loses its
tasks to the others. An exception here is logged by the scheduler and costs traffic,
never a result.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from ..typing import Cell
from .graph import PANEL, PRODUCT, SCALING_STAGES, UPDATE
from .placement import WorkerGrid, assign_slots, balanced_grids, spread
from .triangle import TriangleMap, triangle_map

PLUGIN_NAME = "twom-placement"
# Of a pause, before others take over what the worker has not begun: shorter ones, while
# a tile is written to disk, cost less than moving its inputs.
PAUSE_SECONDS = 5.0

# Stages of tiles that another product may take.
RESULTS = (PRODUCT, UPDATE)

Layout = WorkerGrid | TriangleMap


def _stage_and_token(key: Any) -> tuple[str, str]:
    """Split ``twom-<stage>-<token>`` of a tuple key; two empty strings otherwise."""
    name = key[0] if isinstance(key, tuple) and key else ""
    if not (isinstance(name, str) and name.startswith("twom-")):
        return "", ""
    stage, _, token = name.rpartition("-")
    return stage, token


class PlacementPlugin(SchedulerPlugin):
    """Restrict product tasks loosely to workers, of those that are alive."""

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
            if stage in (PRODUCT, PANEL) and key in scheduler.tasks:
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

        Stolen product tasks doubled the traffic of 4 workers on 2 cores. A worker that
        dies or leaves is no matter of stealing: its tasks go back to the scheduler.
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

    def log_event(self, topic: str, msg: Any) -> None:
        """Watch for workers that pause, and for those that go on; topic: a worker."""
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
            # A task that runs already is not given away.
            stealing.move_task_request(task, state, other)
        self._let_go_later(worker)


def _place(states: list[Any], workers: list[str]) -> Iterator[tuple[Any, str]]:
    """Place the tasks of one product, then its input tiles and what scales them.

    A product that the user has placed already is left as it is.
    """
    if any(map(_is_restricted, states)):
        return
    uses = _collect_uses(states)
    layout, slots = _choose(states, uses, workers)
    for ts in states:
        worker = slots[layout.slot(*ts.key[1:3])]
        yield ts, worker
        for dependent in ts.dependents:
            # The same tile, or its mirror image.
            updates = _stage_and_token(dependent.key)[0] == UPDATE
            if updates and not _is_restricted(dependent):
                yield dependent, worker
    consumers = {
        key: [slots[slot] for slot in use.slots(layout)] for key, use in uses.items()
    }
    in_turn = _take_turns(consumers)
    placed = spread(in_turn, lambda key: _homes(uses[key].tile, consumers))
    tiles = [(uses[key].tile, worker) for key, worker in placed.items()]
    made_for_it = [x for x in tiles if _stage_and_token(x[0].key)[0] not in RESULTS]
    yield from with_ancestors(made_for_it)
    for tile, worker in tiles:
        for dependent in tile.dependents:
            scales = _stage_and_token(dependent.key)[0] in SCALING_STAGES
            if scales and not _is_restricted(dependent):
                yield dependent, worker


def _is_restricted(ts: Any) -> bool:
    """Whether somebody else has said where a task may run."""
    return bool(
        ts.worker_restrictions or ts.host_restrictions or ts.resource_restrictions
    )


@dataclass
class _Use:
    """The C tiles that take an input tile.

    All of these rows by all of these columns, unless `cells` lists them one by one,
    as in a triangle.
    """

    tile: Any
    rows: set[int] = field(default_factory=set)
    columns: set[int] = field(default_factory=set)
    cells: set[Cell] | None = None

    def slots(self, layout: Layout) -> list[int]:
        """List the slots that need the tile."""
        if self.cells is not None:
            return sorted({layout.slot(i, j) for i, j in self.cells})
        assert isinstance(layout, WorkerGrid)
        pr, pc = layout.pr, layout.pc
        rows = {i % pr for i in self.rows}
        columns = {j % pc for j in self.columns}
        return sorted(i * pc + j for i in rows for j in columns)


def _collect_uses(states: list[Any]) -> dict[Any, _Use]:
    """Find the chunks of A, B and C that the tasks of one product take."""
    uses: dict[Any, _Use] = {}
    cells = {ts.key[1:3] for ts in states}
    mt, nt = len({i for i, _ in cells}), len({j for _, j in cells})
    rectangle = len(cells) == mt * nt
    for ts in states:
        _, i, j = ts.key[:3]
        token = _stage_and_token(ts.key)[1]
        for tile in ts.dependencies:
            stage, other = _stage_and_token(tile.key)
            if stage and (other == token or stage not in RESULTS):
                continue
            use = uses.get(tile.key)
            if use is None:
                use = uses[tile.key] = _Use(tile, cells=None if rectangle else set())
            use.rows.add(i)
            use.columns.add(j)
            if use.cells is not None:
                use.cells.add((i, j))
    return uses


def _take_turns(consumers: dict[Any, list[str]]) -> list[Any]:
    """Order tiles such that those with the same consumers do not follow each other.

    Where they do, the last of them find only workers that have their share already.
    """
    turns: dict[Any, int] = {}
    taken: Counter[tuple[str, ...]] = Counter()
    for key, workers in consumers.items():
        alike = tuple(workers)
        turns[key] = taken[alike]
        taken[alike] += 1
    return sorted(turns, key=turns.__getitem__)


def _homes(tile: Any, consumers: dict[Any, list[str]]) -> list[str]:
    """List where a tile may be scaled without moving more than its products need."""
    holders = [worker.address for worker in tile.who_has or ()]
    return holders or consumers[tile.key]


def _choose(
    states: list[Any], uses: dict[Any, _Use], workers: list[str]
) -> tuple[Layout, list[str]]:
    """Choose layout and workers: least load, then fewest bytes that must move."""
    cells = {ts.key[1:3] for ts in states}
    mt, nt = (1 + max(indices) for indices in zip(*cells, strict=True))
    if mt > 1 and _is_triangle(cells, mt):
        triangle = triangle_map(mt, len(workers))
        return triangle, _seat(triangle, uses, workers)[1]
    best: tuple[tuple[int, int], WorkerGrid, list[str]] | None = None
    for grid in balanced_grids(len(workers), mt, nt):
        moved, slots = _seat(grid, uses, workers)
        rank = (moved, abs(grid.pr - grid.pc))
        if best is None or rank < best[0]:
            best = (rank, grid, slots)
    assert best is not None
    return best[1], best[2]


def _is_triangle(cells: set[Cell], count: int) -> bool:
    """Whether these are all the cells on one side of the diagonal, and those on it."""
    if len(cells) != count * (count + 1) // 2:
        return False
    return all(i >= j for i, j in cells) or all(i <= j for i, j in cells)


def _seat(
    layout: Layout, uses: dict[Any, _Use], workers: list[str]
) -> tuple[int, list[str]]:
    """Give each slot a worker; return the bytes that must move, and the workers."""
    # As many as workers: what a slot that does not exist gets is left out.
    gains: list[dict[str, int]] = [defaultdict(int) for _ in workers]
    total = 0
    for use in uses.values():
        nbytes = use.tile.get_nbytes()
        slots_of_tile = use.slots(layout)
        total += nbytes * len(slots_of_tile)
        for holder in use.tile.who_has or ():
            for slot in slots_of_tile:
                gains[slot][holder.address] += nbytes
    slots = assign_slots(gains, workers)
    return total - sum(gains[s][w] for s, w in enumerate(slots)), slots


def with_ancestors(tiles: list[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """Yield tiles with their workers, and what only tasks of one worker need for them.

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
    """Whether a task is still to be computed, and nobody has said where."""
    to_be_computed = task.state in ("released", "waiting", "no-worker")
    return to_be_computed and not task.who_has and not _is_restricted(task)
