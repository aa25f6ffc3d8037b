"""The worker that first gets each input tile, and analyses it.

A tile that a product of a later graph needs is read on that product's worker: see
`choose_readers`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar

from ...grid import Grid
from ...interpreter import Line
from ...spec import SIDES, Spec
from .grids import WorkerGrid, find_chain
from .triangle import TriangleMap

T = TypeVar("T", bound=Hashable)
READER = "twom-reader"  # annotation of such tasks: the address of the worker


def choose_homes(
    groups: Iterable[Collection[T]],
    needed_by: Mapping[T, Collection[str]],
    held: Mapping[T, Collection[str]],
    nodes: Mapping[str, int] | None = None,
    workers: int = 0,
) -> dict[T, str]:
    """Choose for the tiles of each group the least loaded of the workers that need all.

    A group is analysed by one task; a tile that comes again stays where it is. `held`:
    the workers that have a tile already decide between equally loaded ones. Groups that
    are fewer than so many `workers` are shared, each by those of a node.
    """
    shares: list[_Share[T]] = []
    load: Counter[str] = Counter()
    of_nodes: Counter[int | None] = Counter()
    nodes, own = nodes or {}, [*_list_new(_take_turns(groups, needed_by))]
    parts = -(-workers // max(1, sum(len(tiles) > 1 for tiles in own)))
    for group in own:
        there = Counter(worker for tile in group for worker in held[tile])
        wanted = Counter(worker for tile in group for worker in needed_by[tile])
        most = max(wanted.values())
        able = sorted(worker for worker, count in wanted.items() if count == most)
        if parts > 1:
            near = defaultdict[Any, list[str]](list)
            for worker in able:
                near[nodes.get(worker)].append(worker)
            node = min(near, key=lambda x: (of_nodes[x], sum(load[w] for w in near[x])))
            able = near[node]
            of_nodes[node] += len(group)
        size = -(-len(group) // max(1, parts))
        for lo in range(0, len(group), size):
            tiles = group[lo : lo + size]
            home = min(able, key=lambda worker: (load[worker], -there[worker]))
            load[home] += len(tiles)
            shares.append(_Share(tiles, able, home))
    while _pass_on(shares, load):
        pass
    return {tile: share.home for share in shares for tile in share.tiles}


@dataclass(eq=False)
class _Share(Generic[T]):
    """Tiles of one group, the workers that may have them, and the one that has."""

    tiles: list[T]
    able: list[str]
    home: str


def _pass_on(shares: list[_Share[T]], load: Counter[str]) -> bool:
    """Relieve the fullest worker along a chain, each passing a share of one size on.

    Each chain lowers the sum of the squared loads, so that there is a last one.
    """
    fullest = max(load, key=lambda worker: (load[worker], worker), default="")
    least = min((load[worker] for x in shares for worker in x.able), default=0)
    for size in sorted({len(x.tiles) for x in shares}):
        if least + size >= load[fullest]:
            break
        own: dict[str, list[_Share[T]]] = defaultdict(list)
        for share in shares:
            if len(share.tiles) == size:
                own[share.home].append(share)

        def offers(giver: str, own: Any = own) -> Iterator[tuple[_Share[T], str]]:
            return ((share, taker) for share in own[giver] for taker in share.able)

        chain = find_chain(fullest, size, load, offers)
        for _, share, taker in chain:
            share.home = taker
        if chain:
            load[fullest] -= size
            load[chain[0][2]] += size
            return True
    return False


def _list_new(groups: Iterable[Collection[T]]) -> Iterator[list[T]]:
    """List what of each group is in none before it."""
    known: set[T] = set()
    for tiles in groups:
        if new := [tile for tile in tiles if tile not in known]:
            known.update(new)
            yield new


def _take_turns(
    groups: Iterable[Collection[T]], needed_by: Mapping[T, Collection[str]]
) -> list[Collection[T]]:
    """Order groups such that those with the same workers do not follow each other.

    The last of them would find only workers that have their share already.
    """
    taken: Counter[tuple[str, ...]] = Counter()
    turns = []
    for tiles in filter(None, groups):
        alike = tuple(sorted(needed_by[next(iter(tiles))]))
        turns.append((taken[alike], tiles))
        taken[alike] += 1
    return [tiles for _, tiles in sorted(turns, key=itemgetter(0))]


def choose_readers(
    grid: Grid,
    spec: Spec,
    placement: WorkerGrid | TriangleMap,
    own: int,
    workers: list[str],
) -> dict[tuple[Line, int], str]:
    """Choose a worker for each tile, by its row and step, that will multiply it.

    Each strip is analysed by one task, and has one worker. `placement`: of a layer of
    `own` workers, as `assignment` will choose it where tiles lie so.
    """
    needed_by: dict[tuple[Line, int], set[str]] = defaultdict(set)
    for layer in range(len(grid.layers)):
        for cell in spec.routine.cells(grid.mt, grid.nt, spec.uplo):
            slot = layer * own + placement.slot(*cell)
            for pair in spec.routine.pairs(*cell):
                for side, i in zip(SIDES, pair, strict=True):
                    worker = workers[slot % len(workers)]
                    needed_by[(spec.side_of(side), i), layer].add(worker)
    layers = {
        s: n
        for n, parts in enumerate(grid.layers)
        for part in parts
        for lo, hi in part
        for s in range(lo, hi)
    }
    lines = dict.fromkeys(line for line, _ in needed_by)
    groups = [[(x, s) for s in range(*strip)] for x in lines for strip in grid.strips]
    needed = {
        tile: needed_by[tile[0], layers[tile[1]]] for group in groups for tile in group
    }
    return choose_homes(groups, needed, dict.fromkeys(needed, ()))
