"""The product, from top to bottom: the stages of every routine, in their order.

Stages make all decisions that depend on the entries of the matrices, so that eager
products, graphs and plans all run these lines, each with an `Interpreter` of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..typing import Cell, Side
from . import cells, stages
from .accumulator import SweepStep
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
    """Scale rows of op(A) and columns of op(B), then compute C sweep by sweep."""
    exponents: dict[Line, Value] = {}
    if not (spec.native or spec.exact or spec.empty):
        exponents = scale(ex, spec, found)
    for sweeps in ex.sweeps():
        ended: dict[tuple[int, int], Value] = {}
        for sweep in sweeps:
            if ex.grid.sweeps:
                tiles = multiply_sweep(ex, spec, found, sweep, exponents, ended)
            else:
                tiles = [multiply_cell(ex, spec, found, x, exponents) for x in sweep]
            for cell, tile in zip(sweep, tiles, strict=True):
                ex.emit(cell, tile)
                if spec.routine.triangle and cell[0] != cell[1]:
                    ex.emit(cell[::-1], mirror(ex, spec, cell, tile))


def mirror(ex: Interpreter, spec: Spec, cell: Cell, tile: Value) -> Value:
    """Make the tile of a square that is the mirror image of another, or zeros."""
    i, j = cell
    if spec.uplo == "full":
        return ex.call("update", (j, i), cells.mirror_tile, spec, tile)
    shape = ex.grid.n[j], ex.grid.m[i]
    return ex.call("update", (j, i), cells.zero_tile, spec, shape)


def multiply_sweep(
    ex: Interpreter,
    spec: Spec,
    found: Findings,
    sweep: Sequence[Cell],
    exponents: Mapping[Line, Value],
    ended: dict[tuple[int, int], Value],
) -> list[Value]:
    """Multiply the cells of a sweep side by side, a panel of all of them at a time.

    `ended`: what the worker's sweep before has ended with, for each part of k. This one
    waits for it, since the sums of both would take twice the memory.
    """
    needed, alone = list_scales(spec, sweep, exponents), len(ex.grid.parts) == 1
    tiles = [ex.c_tile(cell) for cell in sweep] if alone else None
    sums: list[list[list[Partial]]] = [[[] for _ in ex.grid.layers] for _ in sweep]
    for layer, part in ((n, x) for n, own in enumerate(ex.grid.layers) for x in own):
        place = layer, part[0][0]
        before = ended.get(place)
        for done, panel in enumerate(part):
            # The last panel of a single part is multiplied where it is decoded.
            c = tiles if panel is part[-1] else None
            step = SweepStep(tuple(sweep), tuple(needed), done)
            where, run = (*sweep[0], layer, panel[0]), cells.multiply_sweep
            rows = operands(ex, found, needed, panel)
            before = ex.call("sweep", where, run, found.spec, step, before, c, *rows)
        stage, at = ("product", ()) if alone else ("part", place)
        for n, cell in enumerate(sweep):
            own = ex.call(stage, (*cell, *at), cells.take_cell, found.spec, before, n)
            sums[n][layer].append(Partial(*place, 1, own))
        # A single cell, since all of them may leave.
        ended[place] = own
    if not alone:
        both = zip(sweep, sums, strict=True)
        return [finish_sums(ex, spec, found, x, own, exponents) for x, own in both]
    return [own[0][0].sums for own in sums]


def multiply_cell(
    ex: Interpreter,
    spec: Spec,
    found: Findings,
    cell: Cell,
    exponents: Mapping[Line, Value],
) -> Value:
    """Multiply all parts of k, panel by panel; add the parts, and decode their sum."""
    (i, j), grid, settled = cell, ex.grid, found.spec
    diagonal = spec.routine.triangle and i == j
    if spec.empty:
        shape, c = (grid.m[i], grid.n[j]), ex.c_tile(cell)
        return ex.call("product", cell, cells.add_alone, spec, diagonal, shape, c)
    needed = list_scales(spec, [cell], exponents)
    alone, sums = len(grid.parts) == 1, list[list[Partial]]()
    for layer, parts in enumerate(grid.layers):
        sums.append([])
        for part in parts:
            before = None
            # The last panel of a single part is multiplied where it is decoded.
            for panel in part[: len(part) - alone]:
                where, multiply = (*cell, layer, panel[0]), cells.multiply_panel
                rows = operands(ex, found, needed, panel)
                before = ex.call(
                    "panel", where, multiply, settled, diagonal, before, *rows
                )
            sums[-1].append(Partial(layer, part[0][0], 1, before))
    if not alone:
        return finish_sums(ex, spec, found, cell, sums, exponents)
    last, finish = operands(ex, found, needed, grid.panels[-1]), cells.finish_cell
    c = ex.c_tile(cell)
    return ex.call("product", cell, finish, settled, diagonal, before, c, *last)


def finish_sums(
    ex: Interpreter,
    spec: Spec,
    found: Findings,
    cell: Cell,
    sums: Sequence[Sequence[Partial]],
    exponents: Mapping[Line, Value],
) -> Value:
    """Add the sums of parts, those of a layer where it lies, and decode the total."""
    (i, j), grid, settled, c = cell, ex.grid, found.spec, ex.c_tile(cell)
    shape, diagonal = (grid.m[i], grid.n[j]), spec.routine.triangle and i == j

    def add(place: tuple[int, ...], x: Value, y: Value) -> Value:
        return ex.call("reduce", (*cell, *place), cells.add_parts, settled, x, y)

    layers = [add_up(parts, add) for parts in sums]
    # Cells beside one another end on different layers.
    turn = (i + j) % len(layers)
    total = add_up(layers[turn:] + layers[:turn], add).sums
    scales, join = list_scales(spec, [cell], exponents).values(), cells.finish_sums
    return ex.call("product", cell, join, settled, diagonal, total, c, shape, *scales)


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
    ex: Interpreter, found: Findings, needed: Mapping[Line, Value], panel: Panel
) -> Iterator[Value]:
    """List one panel of rows, each followed by its exponents."""
    for line, scale in needed.items():
        yield ex.row(line, range(*panel), found.shifts)
        yield scale


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
