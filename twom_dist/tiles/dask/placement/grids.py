"""Placement of C tiles on a 2-D grid of workers: pure functions.

With tile (i, j) on worker (i mod pr, j mod pc), each tile of A goes to pc workers, one
of B to pr: the volume of a 2-D SUMMA.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, lcm
from typing import Any, TypeVar

LITTLE = 1.1  # times the least work, or traffic, that count as little as well

T = TypeVar("T", bound=Hashable)
W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True)
class WorkerGrid:
    """pr x pc slots; C tile (i, j) belongs to the one at (i mod pr, j mod pc).

    They are numbered block by block of r x c, which are those of a node.
    """

    pr: int
    pc: int
    r: int = 1
    c: int = 1

    @property
    def workers(self) -> int:
        """Slots."""
        return self.pr * self.pc

    def needs(self, mt: int, nt: int) -> tuple[list[int], list[int]]:
        """Tell rows of tiles, and columns, apart where other workers need them.

        On the transposed grid as well, which tasks may be placed on.
        """
        period = lcm(self.pr, self.pc)
        return [i % period for i in range(mt)], [j % period for j in range(nt)]

    def slot(self, i: int, j: int) -> int:
        """Slot of a C tile."""
        (row, x), (column, y) = divmod(i % self.pr, self.r), divmod(j % self.pc, self.c)
        return (row * self.nodes.pc + column) * self.r * self.c + x * self.c + y

    @cached_property
    def nodes(self) -> "WorkerGrid":
        """The grid of nodes."""
        return WorkerGrid(-(-self.pr // self.r), -(-self.pc // self.c))

    def largest_load(self, mt: int, nt: int) -> int:
        """Most C tiles on one slot."""
        return -(-mt // self.pr) * -(-nt // self.pc)

    def largest_edges(self, mt: int, nt: int) -> int:
        """Most rows and columns of tiles that one slot needs, together."""
        return -(-mt // self.pr) + -(-nt // self.pc)


def worker_grids(workers: int) -> list[WorkerGrid]:
    """List every pr x pc = workers.

    >>> [(g.pr, g.pc) for g in worker_grids(4)]
    [(1, 4), (2, 2), (4, 1)]
    """
    rows = range(1, workers + 1)
    return [WorkerGrid(pr, workers // pr) for pr in rows if workers % pr == 0]


def node_size(hosts: Iterable[str]) -> int:
    """Return the slots of a node, of which each host has some; 0: all are on one host.

    >>> node_size("aaaaaabbb"), node_size("aaa")
    (3, 0)
    """
    counts = Counter(hosts).values()
    return gcd(*counts) if len(counts) > 1 else 0


def layer_slots(workers: int, layers: int, node: int) -> int:
    """Return the slots of a layer of workers: whole nodes, or a share of one.

    >>> layer_slots(128, 3, 8), layer_slots(16, 5, 8), layer_slots(16, 5, 0)
    (40, 2, 3)
    """
    own = max(1, workers // layers)
    if own < node:
        return max(x for x in range(1, own + 1) if node % x == 0)
    return own - own % node if node else own


def with_nodes(grid: WorkerGrid, size: int, slots: int, mt: int, nt: int) -> WorkerGrid:
    """Renumber slots such that each `size` of them need few rows and columns together.

    `size`: 0 if there is one node. `slots`: those of a layer, some of which may be left
    out. A grid whose blocks would need more of them is returned as it is.

    >>> with_nodes(WorkerGrid(4, 4), 8, 16, 8, 8)
    WorkerGrid(pr=4, pc=4, r=2, c=4)
    """
    sides = ((r, size // r) for r in range(1, size + 1) if size % r == 0)
    grids = [replace(grid, r=r, c=c) for r, c in sides]
    fit = [x for x in grids if x.nodes.workers * size <= slots]

    def cost(x: WorkerGrid) -> int:
        return summa_bytes(x.nodes, mt, nt, mt, nt)

    return min(fit, key=cost, default=grid)


def balanced_grids(workers: int, mt: int, nt: int) -> list[WorkerGrid]:
    """List grids with little work on one slot; some workers may be left out.

    No slot needs more inputs than in the best of the grids that use all workers.

    >>> [(g.pr, g.pc) for g in balanced_grids(7, 6, 6)]  # 7 = 1 x 7 alone
    [(1, 6), (2, 3), (3, 2), (6, 1)]
    """
    grids = {
        WorkerGrid(_fewest(mt, pr), _fewest(nt, workers // pr)): None
        for pr in range(1, max(1, min(workers, mt)) + 1)
    }
    exact = worker_grids(max(1, workers))
    load = min(grid.largest_load(mt, nt) for grid in exact)
    best = [grid for grid in exact if grid.largest_load(mt, nt) == load]
    most = max(grid.largest_edges(mt, nt) for grid in best)
    fit = [grid for grid in grids if grid.largest_edges(mt, nt) <= most]
    least = min(grid.largest_load(mt, nt) for grid in fit)
    return [grid for grid in fit if grid.largest_load(mt, nt) <= LITTLE * least]


def _fewest(tiles: int, slots: int) -> int:
    """Return the fewest slots of which none gets more tiles than with `slots`."""
    most = -(-tiles // max(1, slots))
    return max(1, -(-tiles // max(1, most)))


def summa_bytes(grid: WorkerGrid, mt: int, nt: int, a_bytes: int, b_bytes: int) -> int:
    """Bytes that move when each input tile starts on one of its consumers."""
    copies_a = min(grid.pc, nt) - 1
    copies_b = min(grid.pr, mt) - 1
    return a_bytes * copies_a + b_bytes * copies_b


def choose_grid(
    workers: int, mt: int, nt: int, a_bytes: int, b_bytes: int
) -> WorkerGrid:
    """Choose the grid with the least traffic of those with little work on one slot."""

    def cost(g: WorkerGrid) -> tuple[int, int, int]:
        moved = summa_bytes(g, mt, nt, a_bytes, b_bytes)
        return moved, g.largest_load(mt, nt), abs(g.pr - g.pc)

    return min(balanced_grids(workers, mt, nt), key=cost)


def assign_slots(gains: Sequence[Mapping[W, int]], workers: Sequence[W]) -> list[W]:
    """Give each slot its own worker, such that many needed bytes are already there.

    `gains`: for each slot, the bytes that it needs and a worker holds already. There
    are as many workers as slots. The result is a local optimum under swaps of two.
    """
    chosen = list(workers)

    def gain(slot: int, worker: W) -> int:
        return gains[slot].get(worker, 0)

    improved = True
    while improved:
        improved = False
        for s in range(len(chosen)):
            for t in range(s + 1, len(chosen)):
                before = gain(s, chosen[s]) + gain(t, chosen[t])
                after = gain(s, chosen[t]) + gain(t, chosen[s])
                if after > before:
                    chosen[s], chosen[t] = chosen[t], chosen[s]
                    improved = True
    return chosen


def find_chain(
    fullest: W, size: int, load: Any, offers: Callable[[W], Iterable[tuple[T, W]]]
) -> list[tuple[W, T, W]]:
    """Find a shortest chain along which a load of `size` goes from the fullest on.

    `offers`: what a holder may give, and to whom. Each of the chain gives to the next,
    and the last has room; empty if there is no such chain.
    """
    came: dict[W, tuple[W, T]] = {}
    queue = [fullest]
    for giver in queue:
        for given, taker in offers(giver):
            if taker == fullest or taker in came:
                continue
            came[taker] = giver, given
            queue.append(taker)
            if load[taker] + size < load[fullest]:
                chain = []
                while taker in came:
                    own, given = came[taker]
                    chain.append((own, given, taker))
                    taker = own
                return chain
    return []
