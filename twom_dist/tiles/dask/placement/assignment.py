"""Assign workers to product tasks, to input tiles and to the tasks that scale them.

Tiles of a rectangle go to a grid of workers, those of a triangle as `triangle` says.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ....typing import Cell
from ..graph import PANEL, PART, PRODUCT, REDUCE, SCALING_STAGES, SWEEP, UPDATE
from .grids import LITTLE, assign_slots, balanced_grids, layer_slots, with_nodes
from .input_homes import choose_homes
from .triangle import triangle_map

# Stages whose tiles may be inputs of another product; and what these are decoded from.
RESULTS = (PRODUCT, UPDATE)
SUMS = (PANEL, SWEEP, PART, REDUCE)
Place = tuple[int, int, int]  # a sweep's first cell, and a layer of workers along k


def stage_and_token(key: Any) -> tuple[str, str]:
    """Split ``twom-<stage>-<token>`` of a tuple key; two empty strings otherwise."""
    return _split(key[0]) if isinstance(key, tuple) and key else ("", "")


@lru_cache(maxsize=1024)
def _split(name: Any) -> tuple[str, str]:
    if not (isinstance(name, str) and name.startswith("twom-")):
        return "", ""
    # dask names a fused chain of tasks by the stages of all of them.
    stage, token = name.split("-")[1], name.rpartition("-")[2]
    return f"twom-{stage}", token


class Placed(NamedTuple):
    """Workers of the tasks of one product, and the tiles that have to come there."""

    workers: dict[Any, str]  # of its inputs and of what scales them as well
    received: dict[Any, list[Any]]  # by a task: tiles that its worker does not hold


def place_product(states: list[Any], workers: list[str], node: int = 0) -> Placed:
    """Place the tasks of one product, then its input tiles and what scales them.

    `node`: so many workers in a row share a host; 0: all. What users placed stays.
    """
    if any(map(is_restricted, states)):
        return Placed({}, {})
    heads = _list_heads(states)
    # All that its tasks take, and for which cells and layers.
    needed: dict[Any, set[Place]] = defaultdict(set)
    layers = 1 + max((x.key[3] for x in states if len(x.key) > 3), default=0)
    place_of = {ts: _place(ts, heads, layers) for ts in states}
    for ts, place in place_of.items():
        for task in ts.dependencies:
            needed[task].add(place)
    own = stage_and_token(states[0].key)[1]
    uses: dict[Any, set[Place]] = {}
    for task, cells in needed.items():
        # Chunks of A, B and C, not the intermediate results of a product.
        stage, token = stage_and_token(task.key)
        if not stage or (stage in RESULTS and token != own):
            uses[task] = cells
    places = {*place_of.values()}
    assignment = _choose(places, heads, uses, workers, node)
    placed: dict[Any, str] = {}
    for ts, place in place_of.items():
        worker = placed[ts] = assignment.workers[assignment.slots[place]]
        for dependent in ts.dependents:
            # The same tile, or its mirror image.
            updates = stage_and_token(dependent.key)[0] == UPDATE
            if updates and not is_restricted(dependent):
                placed[dependent] = worker
    needed_by = {
        tile: {assignment.workers[slot] for slot in slots}
        for tile, slots in assignment.needs.items()
    }
    scaling = {
        task: sorted(
            (x for x in task.dependencies if x in needed_by), key=lambda x: x.key[1:]
        )
        for task in _list_scaling(needed)
    }
    held = {tile: [ws.address for ws in tile.who_has or ()] for tile in needed_by}
    groups = [*scaling.values(), *([tile] for tile in needed_by)]
    nodes = {w: n // node for n, w in enumerate(workers)} if node else {}
    homes = choose_homes(groups, needed_by, held, nodes, len({*workers}))
    for task, tiles in scaling.items():
        if tiles:
            shares = Counter(homes[tile] for tile in tiles)
            placed[task] = max(sorted(shares), key=shares.__getitem__)
        elif (place := task.key[1:]) in assignment.slots:
            # Pairs of a sweep, where its cells are multiplied.
            placed[task] = assignment.workers[assignment.slots[place]]
    received = {
        ts: [
            tile
            for tile in ts.dependencies
            if tile in needed_by and placed[ts] not in (held[tile] or [homes[tile]])
        ]
        for ts in (*states, *(task for task in scaling if task in placed))
    }
    fresh = (x for x in homes.items() if stage_and_token(x[0].key)[0] not in RESULTS)
    placed |= with_ancestors([*fresh])
    return Placed(placed, received)


def is_restricted(ts: Any) -> bool:
    """Return whether the workers of a task are restricted already."""
    own = ts.worker_restrictions, ts.host_restrictions, ts.resource_restrictions
    return any(own)


def _list_heads(states: Iterable[Any]) -> dict[Cell, Cell]:
    """Return the first cell of each cell's sweep, or itself if it has none."""
    heads: dict[Cell, Cell] = {}
    for ts in states:
        stage, cell = stage_and_token(ts.key)[0], ts.key[1:3]
        heads.setdefault(cell, cell)
        if stage == PRODUCT:
            for x in ts.dependencies:
                if stage_and_token(x.key)[0] == SWEEP:
                    heads[cell] = x.key[1:3]
    return heads


def _place(ts: Any, heads: Mapping[Cell, Cell], layers: int) -> Place:
    """Return the first cell of a task's sweep, and its layer of workers along k."""
    i, j, *rest = ts.key[1:]
    if not rest:
        # A tile of C is decoded where the sums of its sweep are: as `Grid.home` has
        # it, those of a cell alone are in each layer.
        own = {x.key[3] for x in ts.dependencies if stage_and_token(x.key)[0] == SWEEP}
        rest = [*own] if len(own) == 1 else [(i + j) % layers]
    return *heads[i, j], rest[0]


def _list_scaling(needed: Iterable[Any]) -> list[Any]:
    """List the scaling tasks of one product that are not placed yet."""
    found: dict[Any, None] = {}
    tasks = [*needed]
    while tasks:
        scaling = [
            task
            for task in dict.fromkeys(tasks)
            if task not in found
            and stage_and_token(task.key)[0] in SCALING_STAGES
            and not is_restricted(task)
        ]
        found |= dict.fromkeys(scaling)
        tasks = [before for task in scaling for before in task.dependencies]
    return [*found]


class _Assignment(NamedTuple):
    """A layout on the workers: slots of the cells, and a worker for each slot."""

    moved: int  # bytes to workers
    entering: int  # bytes to nodes, if each tile goes on from there to its workers
    slots: dict[Place, int]
    needs: dict[Any, set[int]]  # an input tile -> the slots that need it
    workers: list[str]


def _choose(
    places: set[Place],
    heads: Mapping[Cell, Cell],
    uses: dict[Any, set[Place]],
    workers: list[str],
    node: int,
) -> _Assignment:
    """Choose layout and workers: least load, little that moves, least enters nodes."""
    mt, nt = (1 + max(indices) for indices in zip(*heads, strict=True))
    cells, layers = heads.keys(), 1 + max(layer for _, _, layer in places)
    own = layer_slots(len(workers), layers, node)
    if -layers * own % len(workers) > (LITTLE - 1) * layers * own:
        # Other workers than were planned for: each has a share of all layers.
        own = len(workers)
    node = min(node, own)
    # All cells on one side of the diagonal, and on it.
    triangle = len(cells) == mt * (mt + 1) // 2
    triangle = triangle and len({(i > j) - (i < j) for i, j in cells} - {0}) == 1
    if mt > 1 and triangle:
        layouts = [triangle_map(mt, own, node % own).slot]
    else:
        grids = balanced_grids(own, mt, nt)
        grids.sort(key=lambda grid: abs(grid.pr - grid.pc))
        layouts = [with_nodes(x, node % own, own, mt, nt).slot for x in grids]
    # The cells of a sweep are on one worker, by the layout that the plan has seen.
    fit = [
        slot for slot in layouts if all(slot(*x) == slot(*y) for x, y in heads.items())
    ]
    if not fit:
        # Other workers than were planned for.
        dealt = {head: n for n, head in enumerate(sorted({*heads.values()}))}
        fit = [lambda i, j: dealt[i, j] % own]
    found = [_assign(slot, own, places, uses, workers, node) for slot in fit]
    most = LITTLE * min(x.moved for x in found)
    little = [x for x in found if x.moved <= most]
    return min(little, key=lambda x: (x.entering, x.moved))


def _assign(
    layout: Callable[[int, int], int],
    own: int,
    places: set[Place],
    uses: dict[Any, set[Place]],
    workers: list[str],
    node: int,
) -> _Assignment:
    """Give each slot the worker that holds most of what it needs.

    Nodes are exchanged as a whole first. `own`: slots of a layer, all laid out alike.
    """
    slots = {
        (i, j, layer): (layer * own + layout(i, j)) % len(workers)
        for i, j, layer in places
    }
    needs = {tile: {slots[place] for place in uses[tile]} for tile in uses}
    size = node or len(workers)
    starts = range(0, len(workers), size)
    # A worker of many threads may be in several.
    nodes_of: dict[str, set[int]] = defaultdict(set)
    for slot, worker in enumerate(workers):
        nodes_of[worker].add(slot // size)
    # One for each worker, though a layout may have fewer slots.
    gains: list[dict[str, int]] = [defaultdict(int) for _ in workers]
    node_gains: list[dict[int, int]] = [defaultdict(int) for _ in starts]
    moved = entering = 0
    for tile, slots_of_tile in needs.items():
        nbytes = tile.get_nbytes()
        nodes = {slot // size for slot in slots_of_tile}
        moved += nbytes * len(slots_of_tile)
        entering += nbytes * len(nodes)
        holders = [ws.address for ws in tile.who_has or ()]
        for holder in holders:
            for slot in slots_of_tile:
                gains[slot][holder] += nbytes
        for place in {x for holder in holders for x in nodes_of.get(holder, ())}:
            for own_node in nodes:
                node_gains[own_node][place] += nbytes
    own_workers: list[str] = []
    order = assign_slots(node_gains, range(len(starts)))
    for place, first in zip(order, starts, strict=True):
        there = workers[place * size : (place + 1) * size]
        own_workers += assign_slots(gains[first : first + size], there)
        entering -= node_gains[first // size][place]
    moved -= sum(gains[s][w] for s, w in enumerate(own_workers))
    return _Assignment(moved, entering, slots, needs, own_workers)


def with_ancestors(tiles: list[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """Yield tiles with their workers, and their ancestors that one worker alone needs.

    Once all dependents of a task are on one worker it is followed: each edge once.
    """
    waiting: dict[Any, int] = {}
    homes: dict[Any, set[str]] = defaultdict(set)
    found = [*tiles]
    while found:
        task, worker = found.pop()
        to_be_computed = task.state in ("released", "waiting", "no-worker")
        if task.who_has or is_restricted(task) or not to_be_computed:
            continue
        yield task, worker
        for needed in task.dependencies:
            key = needed.key
            waiting[key] = waiting.get(key, len(needed.dependents)) - 1
            homes[key].add(worker)
            alone = not waiting[key] and len(homes[key]) == 1
            if alone and not stage_and_token(key)[0]:
                found.append((needed, worker))
