"""Waves: parts of a result that are computed one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..typing import Cell


@dataclass(frozen=True)
class Wave:
    """C tiles that are computed before the next ones; or one triangle of a square."""

    rows: slice
    columns: slice
    triangle: Literal["lower", "upper"] | None = None

    @property
    def cells(self) -> list[Cell]:
        """Indices of the tiles that are computed."""
        return [
            (i, j)
            for i in range(self.rows.start, self.rows.stop)
            for j in range(self.columns.start, self.columns.stop)
            if self.triangle is None or i == j or (i > j) == (self.triangle == "lower")
        ]

    @property
    def size(self) -> int:
        """Number of tiles that are computed."""
        high = len(range(self.rows.start, self.rows.stop))
        wide = len(range(self.columns.start, self.columns.stop))
        return high * wide if self.triangle is None else high * (high + 1) // 2


def cut_rectangle(mt: int, nt: int, rows: int, columns: int) -> Iterator[Wave]:
    """Cut mt x nt tiles into waves of at most `rows` by `columns`."""
    for i in range(0, mt, rows):
        for j in range(0, nt, columns):
            yield Wave(slice(i, min(i + rows, mt)), slice(j, min(j + columns, nt)))


def cut_triangle(count: int, width: int, *, upper: bool) -> Iterator[Wave]:
    """Cut the triangle of count x count tiles into waves of `width` rows of op(A).

    Tile (i, j) needs rows i and j: squares are `width` wide, rectangles half as much.

    >>> [wave.size for wave in cut_triangle(5, 4, upper=False)]
    [10, 1, 2, 2]
    """
    high, wide = max(1, width // 2), width - width // 2
    for top in range(0, count, width):
        strip = slice(top, min(top + width, count))
        yield Wave(strip, strip, "upper" if upper else "lower")
        for i in range(top, strip.stop, high):
            for j in range(0, top, wide):
                rows = slice(i, min(i + high, strip.stop))
                columns = slice(j, min(j + wide, top))
                yield Wave(columns, rows) if upper else Wave(rows, columns)
