"""The product, from top to bottom: the stages of every routine, in their order.

Stages make all decisions that depend on the entries of the matrices, so that eager
products, graphs and plans all run these lines, each with an `Interpreter` of its own.
"""

from collections.abc import Iterable, Iterator, Mapping

from ..typing import Cell, Side
from . import cells, stages
from .analysis.moduli import choose_moduli
from .grid import Panel, Partial, add_up
from .interpreter import (
    Analyser,
    Findings,
    Interpreter,
    Line,
    Place,
    Shifts,
    Value,
    by_line,
    lines,
    strips,
)
from .spec import SIDES, Spec


def product(ex: Interpreter, spec: Spec) -> None:
    """Compute ``alpha op(A) op(B) + beta C``, or an update."""
    multiply(ex, spec, look(ex, spec))


def look(ex: Analyser, spec: Spec) -> Findings:
    """Choose the shifts along k, then the moduli, where the spec leaves them open."""
    if not spec.looks:
        return Findings(spec)
    shifts: Shifts = None
    seen: Mapping[Place, Value] = {}
    if spec.equilibrate:
        seen = measure(ex, spec, lines(ex, spec), columns=True)
        shifts, seen = ex.decide(choose_shifts(ex, spec, seen), seen)
    if not spec.data_driven:
        return Findings(spec, shifts)
    if shifts is not None or not seen:
        seen = measure(ex, spec, lines(ex, spec), shifts, seen)
    measured = ex.settle(add_strips(ex, spec, seen))
    return Findings(choose_moduli(ex, spec, shifts, measured), shifts, measured)


def measure(
    ex: Analyser,
    spec: Spec,
    own: Iterable[Line],
    shifts: Shifts = None,
    before: Mapping[Place, Value] | None = None,
    columns: bool = False,
) -> dict[Place, Value]:
    """Find the largest exponents over all of k, then exact sums of each strip.

    `before`: those without shifts; `columns`: whether to look at columns, too.
    """
    scan = stages.scan_strip if columns else stages.row_sums
    again = () if shifts is None else ("shifted",)
    rows, old, largest = strips(ex, own, shifts), before or {}, None
    if len(ex.grid.strips) > 1:
        pairs = {x: (row, old.get(x)) for x, row in rows.items()}
        find = stages.largest_exponents
        largest = by_line(ex.each("largest", find, spec, pairs, again))
    cases = {
        x: (row, largest and largest[x[:2]], old.get(x)) for x, row in rows.items()
    }
    return ex.each("sums", scan, spec, cases, again)


def add_strips(
    ex: Analyser, spec: Spec, sums: Mapping[Place, Value]
) -> dict[Line, Value]:
    """Add the sums of all strips of each row of tiles."""
    if len(sums) == len(parts := by_line(sums)):
        return {line: x for line, (x,) in parts.items()}
    cases = {line: (x,) for line, x in parts.items()}
    return ex.each("sums", stages.add_sums, spec, cases, ("all",))


def choose_shifts(ex: Analyser, spec: Spec, seen: Mapping[Place, Value]) -> list[Value]:
    """Choose e for each tile along k, from the extreme exponents of all columns."""

    def combine(side: Side, s: int) -> Value:
        above = [seen[side, i, s] for i in ex.lines(side, wanted=False)]
        if len(above) == 1:
            return above[0]
        return ex.call("columns", (side, s), stages.combine_columns, spec, above)

    count, sizes = len(ex.grid.strips), ex.grid.k
    columns = [[combine(side, s) for s in range(count)] for side in spec.sides]
    found = ex.call("shifts", (), stages.choose_shifts, spec, sizes, *columns)
    return [ex.pick(found, s) for s in range(ex.grid.kt)]


def multiply(ex: Interpreter, spec: Spec, found: Findings) -> None:
    """Scale rows of op(A) and columns of op(B), then compute C cell by cell."""
    exponents: dict[Line, Value] = {}
    if not (spec.native or spec.exact or spec.empty):
        exponents = scale(ex, spec, found)
    for i, j in ex.cells():
        tile = multiply_cell(ex, spec, found, (i, j), exponents)
        ex.emit((i, j), tile)
        if spec.routine.triangle and i != j:
            full, shape = spec.uplo == "full", (ex.grid.n[j], ex.grid.m[i])
            other = cells.mirror_tile if full else cells.zero_tile
            own = tile if full else shape
            ex.emit((j, i), ex.call("update", (j, i), other, spec, own))


def multiply_cell(
    ex: Interpreter,
    spec: Spec,
    found: Findings,
    cell: Cell,
    exponents: dict[Line, Value],
) -> Value:
    """Multiply all parts of k, panel by panel; add the parts, and decode their sum."""
    (i, j), grid, c = cell, ex.grid, ex.c_tile(cell)
    shape, diagonal = (grid.m[i], grid.n[j]), spec.routine.triangle and i == j
    if spec.empty:
        return ex.call("product", cell, cells.add_alone, spec, diagonal, shape, c)
    settled = found.spec
    both = [x for own in spec.routine.pairs(i, j) for x in zip(SIDES, own, strict=True)]
    scales = [exponents.get((spec.side_of(side), x)) for side, x in both]

    def operands(panel: Panel) -> Iterator[Value]:
        for line, scale in zip(both, scales, strict=True):
            yield ex.row(line, range(*panel), found.shifts)
            yield scale

    def add(place: tuple[int, ...], x: Value, y: Value) -> Value:
        return ex.call("reduce", (*cell, *place), cells.add_parts, settled, x, y)

    alone, layers = len(grid.parts) == 1, []
    for layer, parts in enumerate(grid.layers):
        sums = []
        for part in parts:
            before = None
            # The last panel of a single part is multiplied where it is decoded.
            for panel in part[: len(part) - alone]:
                where, rows = (*cell, layer, panel[0]), operands(panel)
                multiply = cells.multiply_panel
                before = ex.call(
                    "panel", where, multiply, settled, diagonal, before, *rows
                )
            sums.append(Partial(layer, part[0][0], 1, before))
        layers.append(add_up(sums, add))
    if alone:
        last, finish = operands(grid.panels[-1]), cells.finish_cell
        return ex.call("product", cell, finish, settled, diagonal, before, c, *last)
    # Cells beside one another end on different layers.
    turn = (i + j) % len(layers)
    total = add_up(layers[turn:] + layers[:turn], add).sums
    join = cells.finish_sums
    return ex.call("product", cell, join, settled, diagonal, total, c, shape, *scales)


def scale(ex: Interpreter, spec: Spec, found: Findings) -> dict[Line, Value]:
    """Choose the largest powers of two for rows of tiles that the moduli allow."""
    measured, own = found.measured, [*lines(ex, spec, wanted=True)]
    if measured is None and len(ex.grid.strips) == 1:
        rows = {x[:2]: (y,) for x, y in strips(ex, own, found.shifts).items()}
        return ex.each("exponents", stages.scale_in_one, found.spec, rows)
    if measured is None:
        measured = add_strips(ex, spec, measure(ex, spec, own, found.shifts))
    cases = {x: (measured[x],) for x in own}
    return ex.each("exponents", stages.choose_exponents, found.spec, cases)
