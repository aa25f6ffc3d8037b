"""Placement of the tiles of one triangle, such as that of A A^H: pure functions.

Tile (i, j) needs rows i and j of A. On a cyclic grid a worker holds two sets of rows of
A: one for the rows and one for the columns of its tiles. With a block design both sets
are one block, so workers hold and move little more than half as much.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import chain, combinations, islice, product
from math import isqrt
from operator import itemgetter, or_
from types import MappingProxyType
from typing import Any

from ....typing import Cell
from .block_designs import BlockDesign, bits, greedy_design, plane_design
from .grids import find_chain, worker_grids

# Rows that the search sees (each stands for several if there are more), sizes of
# designs that it tries, attempts for each size, designs that it fills with cells, and
# rows that it adds to one of these.
ROWS, SIZES, SEEDS, KEPT, ADDED = 64, 16, 2, 3, 64
# Rows that are placed one by one, which further rows repeat; and the most workers for
# which designs are searched.
PLACED, SEARCHED = 256, 512
# Largest over mean load that counts as even: less can cost 15 rows for 11, of 56 on 31.
EVEN = 1.02

_Kind = tuple[int, int]  # a cell's choice of slots, a bit for each, and its work


@dataclass(frozen=True, eq=False)
class TriangleMap:
    """Slots of the tiles of one triangle."""

    count: int  # rows of tiles
    workers: int
    # Slot of cell (i, j), i >= j, for `period` rows; row r is as row r mod `period`.
    slots: Mapping[Cell, int]

    @cached_property
    def period(self) -> int:
        """Rows that are placed one by one."""
        return isqrt(2 * len(self.slots))  # p rows have p (p + 1) / 2 cells

    def slot(self, i: int, j: int) -> int:
        """Slot of a tile, or of its mirror image."""
        i, j = i % self.period, j % self.period
        return self.slots[(i, j) if i >= j else (j, i)]

    def rows_of(self, slot: int) -> Set[int]:
        """Rows of A that the tiles of a slot need."""
        return self._rows.get(slot, frozenset())

    @cached_property
    def _rows(self) -> dict[int, Set[int]]:
        return {
            slot: {r for row in bits(own) for r in range(row, self.count, self.period)}
            for slot, own in held_rows(self.slots).items()
        }

    def needs(self, mt: int, nt: int) -> tuple[list[Set[int]], list[Set[int]]]:
        """Return the slots that need each row of tiles of op(A), and of op(B)^T."""
        slots: list[set[int]] = [set() for _ in range(self.count)]
        for slot, rows in self._rows.items():
            for row in rows:
                slots[row].add(slot)
        found: list[Set[int]] = [frozenset(x) for x in slots]
        return found, found

    @cached_property
    def balance(self) -> float:
        """Work of the busiest slot over the mean of all."""
        work: Counter[int] = Counter()
        for (i, j), slot in self.slots.items():
            high, wide = (len(range(r, self.count, self.period)) for r in (i, j))
            work[slot] += (1 + (i != j)) * high * wide
        return max(work.values()) * self.workers / work.total() if work else 1.0

    @cached_property
    def copies(self) -> int:
        """Rows that move: each to every slot that needs it except the first."""
        return sum(map(len, self._rows.values())) - self.count


@lru_cache(maxsize=16)
def triangle_map(count: int, workers: int, node: int = 0) -> TriangleMap:
    """Place a triangle of `count` rows of tiles, and keep the result.

    `node`: so many slots in a row share a host; 0: all of them.

    >>> found = triangle_map(8, 6)
    >>> len(found.rows_of(0)), found.slot(7, 2) == found.slot(2, 7)
    (4, True)
    """
    periods = _find_periods(count, workers)
    placed = (MappingProxyType(place_triangle(x, workers)) for x in periods)
    maps = [TriangleMap(count, workers, slots) for slots in placed]
    # Repeated rows cut it coarsely, so twice the excess over the mean counts as even.
    best = min(maps, key=lambda x: (max(x.balance, 2 * EVEN - 1), x.copies))
    if not 1 < node < workers:
        return best
    shared = _share_nodes(best.slots, workers, node)
    return replace(best, slots=MappingProxyType(shared))


def _find_periods(count: int, workers: int) -> list[int]:
    """List numbers of rows to place one by one: all of them, or some candidates."""
    if count <= PLACED:
        return [count]
    alike = -(-count // PLACED)
    periods = [-(-count // more) for more in range(alike, alike + 3)]
    plane = plane_design(workers)
    if plane is not None and plane.points <= PLACED:
        periods.append(PLACED // plane.points * plane.points)
    return periods


def held_rows(cells: Mapping[Cell, int]) -> dict[int, int]:
    """Rows of A that each slot needs: a bit for each."""
    rows: dict[int, int] = defaultdict(int)
    for (i, j), slot in cells.items():
        rows[slot] |= 1 << i | 1 << j
    return dict(rows)


def place_triangle(count: int, workers: int) -> dict[Cell, int]:
    """Choose the slot of every cell (i, j) with i >= j: even loads, then few rows.

    The slots are the same in every process. The busiest has no more work, and the
    fullest no more rows, than on the best cyclic grid.

    Lines of planes serve c (c + 1) and c (c + 1) + 1 workers, c a prime power up to 13.
    Cost: up to 32 greedy designs, 3 designs filled up to 64 times with the cells of up
    to 64 rows; beyond, a few operations for each cell. Measured on one core of a Zen 4:
    0.1 s for 64 rows and 20 workers, 1 s for 256 and 64 workers, 3 s for 256 and 200.
    """
    cells = [(i, j) for i in range(count) for j in range(i + 1)]
    if workers >= len(cells):
        return {cell: slot for slot, cell in enumerate(cells)}
    grids = worker_grids(workers)
    cyclic = min(({cell: x.slot(*cell) for cell in cells} for x in grids), key=_rank)
    if workers == 1:
        return cyclic
    most_work, most_rows, *_ = _rank(cyclic)
    even = min(EVEN, most_work * workers / count**2)
    # Each of these rows stands for as many as any other, or for one less.
    rows = -(-count // -(-count // ROWS))
    planes = filter(None, map(plane_design, range(workers, 0, -1)))
    designs = [*islice(planes, 1)]
    if workers <= SEARCHED:
        designs.append(_search_design(rows, workers, even, designs))
    found = [_fill(x.spread(count), cells) for x in designs]
    ranked = sorted(found, key=lambda cells: _rank(cells, even * count**2 / workers))
    for placed in ranked:
        work, held, *_ = _rank(placed)
        if work <= most_work and held <= most_rows:
            return placed
    return cyclic


def _share_nodes(cells: Mapping[Cell, int], workers: int, size: int) -> dict[Cell, int]:
    """Renumber slots such that each `size` of them in a row need few rows together.

    Two slots of different nodes are exchanged while that lowers the sum of the squares
    of what the nodes need. Workers keep their cells, and so need no more than before.
    """
    held = held_rows(cells)
    masks = [held.get(slot, 0) for slot in range(workers)]
    nodes = [[*range(first, first + size)] for first in range(0, workers, size)]

    def cost(node: list[int]) -> int:
        return reduce(or_, (masks[slot] for slot in node)).bit_count() ** 2

    improved = True
    while improved:
        improved = False
        for one, other in combinations(nodes, 2):
            least = cost(one) + cost(other)
            for x, y in product(range(size), repeat=2):
                one[x], other[y] = other[y], one[x]
                if (found := cost(one) + cost(other)) < least:
                    least, improved = found, True
                else:
                    one[x], other[y] = other[y], one[x]
    numbers = {slot: n for n, slot in enumerate(chain.from_iterable(nodes))}
    return {cell: numbers[slot] for cell, slot in cells.items()}


def _loads(cells: Mapping[Cell, int]) -> Counter[int]:
    # A cell on the diagonal is half the work of another one.
    return Counter(cells.values()) + Counter(x for (i, j), x in cells.items() if i != j)


def _rank(
    cells: Mapping[Cell, int], even: float = 0, loads: Counter[int] | None = None
) -> tuple[float, int, int, int]:
    """Rank a placement by its largest load, if not even, then by most and all rows."""
    held = [rows.bit_count() for rows in held_rows(cells).values()]
    load = max((loads or _loads(cells)).values(), default=0)
    return max(load, even), max(held, default=0), sum(held), load


def _search_design(
    rows: int, workers: int, even: float, planes: Iterable[BlockDesign]
) -> BlockDesign:
    """Find the design, small or repeated, that is best once it is filled evenly."""
    designs: dict[tuple[int, int], BlockDesign] = {}
    largest = min(rows, max(2 * SIZES, 6 * isqrt(workers)))
    for points in range(largest, 1, -(1 + (largest - 1) // SIZES)):
        for seed in range(SEEDS):
            design = greedy_design(points, workers, seed).spread(rows)
            held = [block.bit_count() for block in design.blocks]
            designs.setdefault((max(held), sum(held)), design)
    kept = [designs[held] for held in sorted(designs)[:KEPT]]
    cells = [(i, j) for i in range(rows) for j in range(i + 1)]
    most = max(even * rows**2 / workers, -(-(rows**2) // workers))
    # Rows that are added cannot serve far more workers than a plane has lines.
    served = (x.spread(rows) for x in planes if 2 * (len(x.blocks) + ADDED) >= workers)
    tried = (*served, *kept)
    found = (_even_out(x, cells, workers, most) for x in tried)
    return min(chain.from_iterable(found), key=itemgetter(0))[1]


def _even_out(
    design: BlockDesign, cells: list[Cell], workers: int, most: float
) -> Iterator[tuple[Any, BlockDesign]]:
    """Give rows to the least loaded worker, one by one, while others have too much.

    Each design is yielded, with its rank. One of fewer blocks becomes one for all.
    """
    rows = [*design.blocks, *[0] * (workers - len(design.blocks))]
    for _ in range(ADDED):
        design = replace(design, blocks=tuple(rows))
        placed = _fill(design, cells)
        load = _loads(placed)
        yield _rank(placed, most, load), design
        least = min(range(workers), key=lambda x: (load[x], rows[x].bit_count()))
        others = [row for row in range(design.points) if not rows[least] >> row & 1]
        if max(load.values()) <= most or not others:
            return
        # By a row: the excess of those whose cells it would bring here.
        gain = dict.fromkeys(others, 0.0)
        full = {slot: x - most for slot, x in load.items() if x > most}
        for cell, slot in placed.items():
            if slot in full and len(new := gain.keys() & cell) == 1:
                gain[new.pop()] += full[slot]
        rows[least] |= 1 << max(gain, key=gain.__getitem__)


def _fill(design: BlockDesign, cells: Iterable[Cell]) -> dict[Cell, int]:
    """Give every cell to a set with both its rows, such that loads are even."""
    holders = [0] * design.points
    for slot, block in enumerate(design.blocks):
        for row in bits(block):
            holders[row] |= 1 << slot
    kinds: dict[_Kind, list[Cell]] = defaultdict(list)
    for i, j in cells:
        kinds[holders[i] & holders[j], 1 + (i != j)].append((i, j))
    slots: list[dict[_Kind, list[Cell]]] = [defaultdict(list) for _ in design.blocks]
    load = [0] * len(design.blocks)
    # Cells with the fewest slots to choose from first, the larger ones before others.
    for kind in sorted(kinds, key=lambda kind: (kind[0].bit_count(), -kind[1])):
        choice, work = bits(kind[0]), kind[1]
        for cell in kinds[kind]:
            slot = min(choice, key=load.__getitem__)
            slots[slot][kind].append(cell)
            load[slot] += work
    _level(slots, load)
    lists = ((slot, own) for slot, kinds in enumerate(slots) for own in kinds.values())
    return {cell: slot for slot, own in lists for cell in own}


def _level(slots: list[dict[_Kind, list[Cell]]], load: list[int]) -> None:
    """Relieve the fullest slot along chains of slots, each giving a cell to the next.

    Each chain lowers the sum of the squared loads, so that the loop ends.
    """
    even = -(-sum(load) // len(load))

    def offers(giver: int, work: int) -> Iterator[tuple[_Kind, int]]:
        for kind, cells in slots[giver].items():
            if kind[1] == work and cells:
                yield from ((kind, taker) for taker in bits(kind[0]))

    while max(load) > even:
        fullest = max(range(len(load)), key=load.__getitem__)
        chains = (find_chain(fullest, x, load, partial(offers, work=x)) for x in (2, 1))
        chain = next(filter(None, chains), None)
        if chain is None:
            return
        for giver, kind, taker in chain:
            slots[taker][kind].append(slots[giver][kind].pop())
            load[giver] -= kind[1]
            load[taker] += kind[1]
