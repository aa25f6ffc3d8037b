"""Grids of tiles: chunk sizes, offsets, and panels along k."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

Chunks = tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """Tile sizes of a product C (m, n) = op(A) (m, k) op(B) (k, n).

    Attributes
    ----------
    m, n, k : tuple of int
        Sizes of the tiles along each dimension.
    panels : tuple of (int, int)
        Half-open ranges of k tiles, multiplied by one task each.
    """

    m: Chunks
    n: Chunks
    k: Chunks
    panels: tuple[tuple[int, int], ...]

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
    def shape(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return sum(self.m), sum(self.n), sum(self.k)


def split_evenly(length: int, largest: int) -> Chunks:
    """Cut a length into tiles of at most `largest`, as equal as whole numbers allow.

    Examples
    --------
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

    Examples
    --------
    >>> offsets((2, 3))
    [(0, 2), (2, 5)]
    """
    ends = list(accumulate(sizes))
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def group_panels(
    k: Chunks, mb: int, nb: int, itemsize: int, panel_bytes: int
) -> tuple[tuple[int, int], ...]:
    """Group k tiles so that one task's input tiles stay within `panel_bytes`.

    At least one tile to a panel; the panels differ by at most one tile.
    """
    if not k:
        return ((0, 0),)
    per_tile = max(1, (mb + nb) * max(k) * itemsize)
    most = max(1, panel_bytes // per_tile)
    return tuple(offsets(split_evenly(len(k), most)))
