"""A scheduler plugin that puts product tasks, and their inputs, on a grid of workers.

Layer annotations vanish in array optimisation (dask/dask#7036), so the restrictions
are set where the graph arrives. They are loose: a worker that dies or pauses loses its
tasks to the others. An exception here is logged by the scheduler and costs traffic,
never a result.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from .graph import PANEL, PRODUCT, SCALING_STAGES
from .placement import WorkerGrid, assign_slots, spread, worker_grids

PLUGIN_NAME = "twom-placement"


def _stage_and_token(key: Any) -> tuple[str, str]:
    """Split ``twom-<stage>-<token>`` of a tuple key; two empty strings otherwise."""
    name = key[0] if isinstance(key, tuple) and key else ""
    if not (isinstance(name, str) and name.startswith("twom-")):
        return "", ""
    stage, _, token = name.rpartition("-")
    return stage, token


class PlacementPlugin(SchedulerPlugin):
    """Restrict product tasks loosely to a 2-D cyclic grid of the live workers."""

    name = PLUGIN_NAME
    idempotent = True

    def start(self, scheduler: Any) -> None:
        """Keep the scheduler: `transition` is not given it."""
        self.scheduler = scheduler
        self.placed: set[Any] = set()

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
            for unknown in stealing.unknown_durations.values():
                unknown.discard(task)


def _place(states: list[Any], workers: list[str]) -> Iterator[tuple[Any, str]]:
    """Place the tasks of one product, then its input tiles and what scales them."""
    inputs = {ts.key: _input_tiles(ts) for ts in states}
    cells = {ts.key: ts.key[1:3] for ts in states}
    grid, slots = _choose(states, inputs, cells, workers)
    consumers: dict[Any, list[str]] = defaultdict(list)
    tiles: dict[Any, Any] = {}
    for ts in states:
        worker = slots[grid.slot(*cells[ts.key])]
        yield ts, worker
        for tile in inputs[ts.key]:
            tiles[tile.key] = tile
            if worker not in consumers[tile.key]:
                consumers[tile.key].append(worker)
    for key, worker in spread(tiles, lambda key: _homes(tiles[key], consumers)).items():
        for task in _chain(tiles[key]):
            yield task, worker
        for dependent in tiles[key].dependents:
            if _stage_and_token(dependent.key)[0] in SCALING_STAGES:
                yield dependent, worker


def _homes(tile: Any, consumers: dict[Any, list[str]]) -> list[str]:
    """List where a tile may be scaled without moving more than its products need."""
    holders = [worker.address for worker in tile.who_has or ()]
    return holders or consumers[tile.key]


def _input_tiles(ts: Any) -> list[Any]:
    """Return the chunks of A, B and C among a task's dependencies."""
    return [d for d in ts.dependencies if not _stage_and_token(d.key)[0]]


def _choose(
    states: list[Any],
    inputs: dict[Any, list[Any]],
    cells: dict[Any, tuple[int, int]],
    workers: list[str],
) -> tuple[WorkerGrid, list[str]]:
    """Choose grid and workers: least load, then fewest bytes that must move."""
    mt = 1 + max(i for i, _ in cells.values())
    nt = 1 + max(j for _, j in cells.values())
    best: tuple[tuple[int, int, int], WorkerGrid, list[str]] | None = None
    for grid in worker_grids(len(workers)):
        needed: list[dict[Any, Any]] = [{} for _ in workers]
        for ts in states:
            for tile in inputs[ts.key]:
                needed[grid.slot(*cells[ts.key])][tile.key] = tile
        gains: list[dict[str, int]] = [defaultdict(int) for _ in workers]
        for slot, tiles in enumerate(needed):
            for tile in tiles.values():
                for holder in tile.who_has or ():
                    gains[slot][holder.address] += tile.get_nbytes()
        slots = assign_slots(gains, workers)
        total = sum(t.get_nbytes() for tiles in needed for t in tiles.values())
        moved = total - sum(gains[s][w] for s, w in enumerate(slots))
        rank = (grid.largest_load(mt, nt), moved, abs(grid.pr - grid.pc))
        if best is None or rank < best[0]:
            best = (rank, grid, slots)
    assert best is not None
    return best[1], best[2]


def _chain(tile: Any) -> Iterator[Any]:
    """Yield a tile that is still to be computed, and the chain that only it needs."""
    task = tile
    while not task.who_has and task.state in ("released", "waiting", "no-worker"):
        yield task
        if len(task.dependencies) != 1:
            return
        (task,) = task.dependencies
        if len(task.dependents) != 1:
            return
