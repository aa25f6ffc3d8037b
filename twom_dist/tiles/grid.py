"""Grids of tiles: chunk sizes, offsets, and how k is shared and cut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from ..typing import Cell, Side

Chunks = tuple[int, ...]
Panel = tuple[int, int]  # a half-open range of k tiles, multiplied by one task
Part = tuple[Panel, ...]  # panels that are multiplied one after the other


@dataclass(frozen=True)
class Grid:
    """Tile sizes of a product C (m, n) = op(A) (m, k) op(B) (k, n)."""

    m: Chunks  # sizes of the tiles along each dimension
    n: Chunks
    k: Chunks
    # Parts of k, side by side: those of a layer lie on one worker, each layer on
    # workers of its own. Residues of parts are added, in whatever order.
    layers: tuple[tuple[Part, ...], ...]
    strips: tuple[Panel, ...] = ()  # that a task analyses; by default the panels
    # The group, of each row of tiles of op(A) and of op(B)^T, that a task analyses; by
    # default each is alone
    groups: tuple[tuple[int, ...], ...] = ((), ())
    pair_block: tuple[int, int] = (1, 1)  # rows and columns whose pairs a task bounds
    order: tuple[int, ...] = ()  # places of tiles along k, by default as they come
    # For each worker its sweeps, one after the other: tiles of C that it multiplies
    # side by side; empty where each tile is multiplied alone
    sweeps: tuple[tuple[tuple[Cell, ...], ...], ...] = ()

    early: bool = False  # whether the first panel does not await checks of pairs

    def __post_init__(self) -> None:
        if not self.strips:
            # A frozen dataclass can only be changed this way.
            object.__setattr__(self, "strips", self.panels)

    @property
    def mt(self) -> int:
        """Tiles along m."""
        return len(self.m)

    @property
    def nt(self) -> int:
        """Tiles along n."""
        return len(self.n)

    @property
    def kt(self) -> int:
        """Tiles along k."""
        return len(self.k)

    @property
    def goes_along_k(self) -> bool:
        """True if sweeps of tiles that are held go along k, panel by panel."""
        return bool(self.sweeps) and max(map(len, self.parts)) > 1

    def groups_of(self, side: Side) -> Sequence[int]:
        """Return the group of each row of tiles of a side."""
        n = side == "right"
        return self.groups[n] or range((self.mt, self.nt)[n])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Parts of all layers."""
        return tuple(part for layer in self.layers for part in layer)

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """Panels of all parts."""
        return tuple(panel for part in self.parts for panel in part)

    def home(self, sweep: Sequence[Cell], n: int) -> int:
        """Return the layer of workers that decodes a cell of a sweep, each in turn."""
        return (sum(sweep[0]) + n) % len(self.layers)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return sum(self.m), sum(self.n), sum(self.k)


def split_evenly(length: int, largest: int) -> Chunks:
    """Cut a length into tiles of at most `largest`, as equal as whole numbers allow.

    >>> split_evenly(10, 4)
    (4, 3, 3)
    """
    if length == 0:
        return (0,)
    count = -(-length // largest)
    small, extra = divmod(length, count)
    return (small + 1,) * extra + (small,) * (count - extra)


def offsets(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Half-open ranges that tiles of these sizes cover.

    >>> offsets((2, 3))
    [(0, 2), (2, 5)]
    """
    ends = list(accumulate(sizes))
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def cut(size: int, largest: int | None) -> Chunks:
    """Cut a dimension into even pieces, or not where no piece is too large."""
    return (size,) if largest is None else split_evenly(size, largest)


ONE_PANEL: tuple[tuple[Part, ...], ...] = ((((0, 1),),),)


def cut_inner(
    count: int, layers: int, parts: int, most: int
) -> tuple[tuple[Part, ...], ...]:
    """Cut k tiles into layers, these into parts, and these into panels.

    `most`: tiles of a panel. All are as even as whole tiles allow.

    >>> cut_inner(7, 2, 1, 2)
    ((((0, 2), (2, 4)),), (((4, 6), (6, 7)),))
    """
    return tuple(
        tuple(
            tuple(_cut_range(part, -(-_length(part) // most)))
            for part in _cut_range(layer, parts)
        )
        for layer in _cut_range((0, count), layers)
    )


@lru_cache(maxsize=256)
def whole(shape: tuple[int, ...], kb: int | None = None) -> Grid:
    """Return the grid of one tile, or of one panel of tiles with at most kb columns."""
    m, n, k = shape
    steps = cut(k, kb)
    return Grid((m,), (n,), steps, cut_inner(len(steps), 1, 1, len(steps)))


def cut_strips(panels: Sequence[Panel], most: int) -> tuple[Panel, ...]:
    """Cut panels into strips of at most so many tiles, as even as possible.

    >>> cut_strips([(0, 4), (4, 7)], 3)
    ((0, 2), (2, 4), (4, 7))
    """
    return tuple(x for own in panels for x in _cut_range(own, -(-_length(own) // most)))


def _length(ends: Panel) -> int:
    return ends[1] - ends[0]


def _cut_range(ends: Panel, count: int) -> list[Panel]:
    """Cut a range into at most so many pieces, as even as possible."""
    length = _length(ends)
    largest = -(-length // max(1, min(count, length)))
    sizes = split_evenly(length, max(1, largest))
    return [(ends[0] + lo, ends[0] + hi) for lo, hi in offsets(sizes)]


class Partial(NamedTuple):
    """Sums of one part of k, or of several."""

    layer: int  # where they lie
    first: int  # tile along k
    parts: int
    sums: Any


def add_up(
    parts: Sequence[Partial], add: Callable[[tuple[int, ...], Any, Any], Any]
) -> Partial:
    """Add sums pair by pair, where the first of both lies: every tree is right.

    `add` is given (layer, first, parts) of a sum, its own, and what is added.
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    x, y = (add_up(own, add) for own in (parts[:half], parts[half:]))
    count = x.parts + y.parts
    total = add((x.layer, x.first, count), x.sums, y.sums)
    return Partial(x.layer, x.first, count, total)
