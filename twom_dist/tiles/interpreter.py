"""The interface between `program` and its interpreters, and findings of an analysis.

`run.eager` calls each stage, `tiles.dask.graph` makes a task, and `plan.count` counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ..typing import Cell, Side
from .grid import Grid, Panel
from .routine import PairBlock
from .spec import SIDES, Spec

Value = Any  # an array, a record of arrays, a reference to its task, or a count
Line = tuple[Side, int]  # a row of tiles of op(A), or of op(B)^T, by its index
Place = tuple[Side, int, int]  # a strip of a row of tiles
Where = TypeVar("Where", bound=tuple[Any, ...])
# For each tile along k the e of ``op(A) 2^-e`` and ``2^e op(B)``, if there is any.
Shifts = Sequence[Value] | None


class Findings(NamedTuple):
    """Findings of the analysis of the matrices."""

    spec: Value  # the spec with its moduli
    shifts: Shifts = None
    # `RowStatistics` of each line; None where there was no analysis
    measured: Mapping[Line, Value] | None = None
    early: Value = None  # the spec if rows settle the moduli, known earlier


class Analyser(Protocol):
    """Gives a meaning to the stages that analyse the matrices."""

    grid: Grid

    def lines(self, side: Side, wanted: bool) -> Iterable[int]:
        """List the rows of tiles of a side: all, or those of `sweeps`."""

    def sweeps(self) -> Iterable[Sequence[Sequence[Cell]]]:
        """List the tiles of C that are wanted and computed, in a suitable order.

        For each worker its sweeps, one after the other; each may be a single tile.
        """

    def pair_blocks(self) -> Iterable[PairBlock]:
        """Group all pairs of rows of tiles: a task bounds the products of a group."""

    def row(self, line: Line, steps: range, shifts: Shifts) -> Value:
        """Make a `Row` of tiles along k."""

    def call(
        self,
        stage: str,
        where: tuple[Any, ...],
        function: Callable[..., Any],
        *args: Value,
    ) -> Value:
        """Call a stage, or arrange for it; `args` begins with a spec."""
        return function(*args)

    def each(
        self,
        stage: str,
        function: Callable[..., Any],
        spec: Value,
        cases: Mapping[Where, tuple[Value, ...]],
        more: tuple[str, ...] = (),
    ) -> dict[Where, Value]:
        """Call a stage of each of some rows of tiles, or strips; together as in groups.

        `more`: what tells these calls from others of the stage.
        """
        return {where: function(spec, *args) for where, args in cases.items()}

    def pick(self, found: Value, n: int) -> Value:
        """Return one of a list; None of None."""
        return pick(found, n)

    def decide(
        self, shifts: Sequence[Value], before: Mapping[Place, Value]
    ) -> tuple[Sequence[Value] | None, Mapping[Place, Value]]:
        """Return the shifts, or None without any, and what of `before` still holds.

        `before`: measurements of the strips of rows as stored. Shifts that are known
        invalidate all of it; while they are unknown, all of it is returned.
        """
        return shifts, before

    def settle(self, found: Value) -> Value:
        """Compute `found` before tiles are read again, where tiles are not held."""
        return found


def pick(found: Sequence[Value] | None, n: int) -> Value:
    """Return one of a list; None of None."""
    return None if found is None else found[n]


def lines(ex: Analyser, spec: Spec, wanted: bool = False) -> Iterator[Line]:
    """List rows of tiles of op(A) and op(B)^T; herk and syrk have one operand."""
    for side in spec.sides:
        for i in ex.lines(side, wanted):
            yield side, i


def strips(ex: Analyser, own: Iterable[Line], shifts: Shifts) -> dict[Place, Value]:
    """Make all strips of rows of tiles."""
    each = [(s, range(*ends)) for s, ends in enumerate(ex.grid.strips)]
    return {(*x, s): ex.row(x, steps, shifts) for x in own for s, steps in each}


def by_line(found: Mapping[Place, Value]) -> dict[Line, list[Value]]:
    """List what was found of the strips of each row of tiles."""
    parts: dict[Line, list[Value]] = defaultdict(list)
    for (side, i, _), x in found.items():
        parts[side, i].append(x)
    return parts


def list_scales(
    spec: Spec, sweep: Iterable[Cell], exponents: Mapping[Line, Value]
) -> dict[Line, Value]:
    """List the rows of op(A) and of op(B)^T that cells take, with their exponents."""
    return {
        (side, x): exponents.get((spec.side_of(side), x))
        for cell in sweep
        for pair in spec.routine.pairs(*cell)
        for side, x in zip(SIDES, pair, strict=True)
    }


def operands(
    ex: Analyser, found: Findings, needed: Mapping[Line, Value], panel: Panel
) -> Iterator[Value]:
    """List one panel of rows, each followed by its exponents."""
    for line, scale in needed.items():
        yield ex.row(line, range(*panel), found.shifts)
        yield scale


class Interpreter(Analyser, Protocol):
    """Gives a meaning to all stages."""

    def c_tile(self, cell: Cell) -> Value:
        """Return the tile of C that is added, or None."""

    def emit(self, cell: Cell, tile: Value) -> None:
        """Take a tile of the result."""
