"""A scheduler plugin that puts product tasks, and their inputs, on a grid of workers.

Layer annotations vanish in array optimisation (dask/dask#7036), so the restrictions
are set where the graph arrives. They are loose: a worker that dies or pauses loses its
tasks to the others. An exception here is logged by the scheduler and costs traffic,
never a result.
"""

from collections import defaultdict
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
                _place(states, workers)


def _place(states: list[Any], workers: list[str]) -> None:
    """Place the tasks of one product, then inputs that are not computed yet."""
    inputs = {ts.key: _input_tiles(ts) for ts in states}
    cells = {ts.key: ts.key[1:3] for ts in states}
    grid, slots = _choose(states, inputs, cells, workers)
    consumers: dict[Any, list[str]] = defaultdict(list)
    tiles: dict[Any, Any] = {}
    for ts in states:
        worker = slots[grid.slot(*cells[ts.key])]
        _restrict(ts, worker)
        for tile in inputs[ts.key]:
            tiles[tile.key] = tile
            if worker not in consumers[tile.key]:
                consumers[tile.key].append(worker)
    waiting = [key for key, tile in tiles.items() if not tile.who_has]
    for key, worker in spread(waiting, consumers.__getitem__).items():
        _restrict_with_source(tiles[key], worker)
        for dependent in tiles[key].dependents:
            if _stage_and_token(dependent.key)[0] in SCALING_STAGES:
                _restrict(dependent, worker)


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


def _restrict(ts: Any, worker: str) -> None:
    ts.worker_restrictions = {worker}
    ts.loose_restrictions = True


def _restrict_with_source(ts: Any, worker: str) -> None:
    """Restrict a tile and the chain of tasks that only it depends on."""
    while not ts.who_has and ts.state in ("released", "waiting", "no-worker"):
        _restrict(ts, worker)
        if len(ts.dependencies) != 1:
            return
        (ts,) = ts.dependencies
        if len(ts.dependents) != 1:
            return
