"""The worker where each input tile begins, and where it is looked at."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from operator import itemgetter
from typing import TypeVar

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
    homes: dict[T, str] = {}
    load: Counter[str] = Counter()
    for tiles in _take_turns(groups, seats):
        new = [tile for tile in tiles if tile not in homes]
        if not new:
            continue
        there = Counter(worker for tile in new for worker in held[tile])
        wanted = Counter(worker for tile in new for worker in seats[tile])
        most = max(wanted.values())
        able = sorted(worker for worker, count in wanted.items() if count == most)
        home = min(able, key=lambda worker: (load[worker], -there[worker]))
        load[home] += len(new)
        homes |= dict.fromkeys(new, home)
    return homes


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
