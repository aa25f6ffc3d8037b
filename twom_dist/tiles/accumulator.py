"""Accumulators of C tiles, and of sweeps, passed from one task along k to the next."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..kernels.protocol import Fill
from ..typing import Array, Cell, Side
from .spec import SIDES, Spec


@dataclass(frozen=True)
class Accumulator:
    """A C tile between two panels."""

    values: Array  # residues, or sums of the native product
    fill: Fill | None = None  # of rows and columns that are not finite

    def __sizeof__(self) -> int:
        return int(self.values.nbytes) + sys.getsizeof(self.fill)


@dataclass(frozen=True)
class SweepStep:
    """One panel of cells of a sweep, and the rows of tiles that they take."""

    cells: dict[int, Cell]  # by their places among the sums of the sweep
    lines: tuple[tuple[Side, int], ...]  # rows of op(A), and of op(B)^T
    done: int  # panels before this one

    def operands(self, spec: Spec, cell: Cell, given: Sequence[Any]) -> list[Any]:
        """List the rows of one cell, each with its exponents, out of those of all."""
        places = [
            2 * self.lines.index(line)
            for pair in spec.routine.pairs(*cell)
            for line in zip(SIDES, pair, strict=True)
        ]
        return [x for place in places for x in given[place : place + 2]]


# The sums of each cell of a sweep, later its tile, and the panels in them: each task
# along k puts its own in place. With sums of its own a task would need room for two of
# each. A task may run again, or begin on a copy, wherever the one before was: what
# holds its panel is left alone. dask sends lists and tuples array by array.
SweepSums = list[tuple[Any, int]]
