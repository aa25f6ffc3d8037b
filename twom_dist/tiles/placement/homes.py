"""The worker where each input tile begins, and where it is looked at."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


def choose_homes(
    groups: Iterable[Collection[T]],
    seats: Mapping[T, Collection[str]],
    held: Mapping[T, Collection[str]],
) -> dict[T, str]:
    """Choose for the tiles of each group the least loaded of the workers that need all.

    Parameters
    ----------
    groups : iterable of collection of tiles
        Each is looked at by one task. A tile that comes again stays where it is.
    seats, held : mapping
        For each tile the workers that need it, and those that hold it already, which
        decide between equally loaded ones.
    """
    shares: list[_Share[T]] = []
    known: set[T] = set()
    load: Counter[str] = Counter()
    for tiles in _take_turns(groups, seats):
        new = [tile for tile in tiles if tile not in known]
        if not new:
            continue
        known.update(new)
        there = Counter(worker for tile in new for worker in held[tile])
        wanted = Counter(worker for tile in new for worker in seats[tile])
        most = max(wanted.values())
        able = sorted(worker for worker, count in wanted.items() if count == most)
        home = min(able, key=lambda worker: (load[worker], -there[worker]))
        load[home] += len(new)
        shares.append(_Share(new, able, home))
    while _pass_on(shares, load):
        pass
    return {tile: share.home for share in shares for tile in share.tiles}


@dataclass
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
        came: dict[str, _Share[T]] = {}
        queue = [fullest]
        for giver in queue:
            for share in own[giver]:
                for taker in share.able:
                    if taker == fullest or taker in came:
                        continue
                    came[taker] = share
                    queue.append(taker)
                    if load[taker] + size < load[fullest]:
                        load[fullest] -= size
                        load[taker] += size
                        while taker in came:
                            share = came.pop(taker)
                            taker, share.home = share.home, taker
                        return True
    return False


def _take_turns(
    groups: Iterable[Collection[T]], seats: Mapping[T, Collection[str]]
) -> list[Collection[T]]:
    """Order groups such that those with the same workers do not follow each other.

    Otherwise the last of them would find only workers that have their share already.
    """
    taken: Counter[tuple[str, ...]] = Counter()
    turns = []
    for tiles in filter(None, groups):
        alike = tuple(sorted(seats[next(iter(tiles))]))
        turns.append((taken[alike], tiles))
        taken[alike] += 1
    return [tiles for _, tiles in sorted(turns, key=itemgetter(0))]
