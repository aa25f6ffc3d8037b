"""The product, from top to bottom: the stages of every routine, in their order.

Stages make all decisions that depend on the entries of the matrices, so that eager
products, graphs and plans all run these lines, each with its own `Interpreter`.
"""

from collections.abc import Iterable, Mapping, Sequence

from ..typing import Cell, Side
from . import cells, stages
from .accumulator import SweepStep
from .analysis.moduli import choose_moduli, settle_by_rows
from .grid import Partial, add_up
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
    list_scales,
    operands,
    strips,
)
from .spec import Spec


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
    early = settle_by_rows(ex, spec, measured)
    settled = choose_moduli(ex, spec, early, shifts, measured)
    return Findings(settled, shifts, measured, early if ex.grid.early else None)


def measure(
    ex: Analyser,
    spec: Spec,
    own: Iterable[Line],
    shifts: Shifts = None,
    before: Mapping[Place, Value] | None = None,
    columns: bool = False,
) -> dict[Place, Value]:
    """Find the largest exponents over all of k, then exact sums of each strip.

    `before`: those without shifts; `columns`: whether to analyse columns, too.
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
        if len(above) == 1 or ex.grid.sweeps:
            return above
        return [ex.call("columns", (side, s), stages.combine_columns, spec, above)]

    count, sizes = len(ex.grid.strips), ex.grid.k
    columns = [[combine(side, s) for s in range(count)] for side in spec.sides]
    found = ex.call("shifts", (), stages.choose_shifts, spec, sizes, *columns)
    return [ex.pick(found, s) for s in range(ex.grid.kt)]


def multiply(ex: Interpreter, spec: Spec, found: Findings) -> None:
    """Scale rows of op(A) and columns of op(B), then compute C sweep by sweep."""
    exponents: Mapping[Line, Value] = {}
    if not (spec.native or spec.exact or spec.empty):
        exponents = scale(ex, spec, found)
    for sweeps in ex.sweeps():
        ended: dict[int, Value] = {}
        for sweep in sweeps:
            sums = multiply_sweep(ex, spec, found, sweep, exponents, ended)
            for n, cell in enumerate(sweep):
                tile = finish(ex, spec, found, cell, sums[n], exponents)
                ended[ex.grid.home(sweep, n)] = tile
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
    ended: dict[int, Value],
) -> list[list[tuple[Value, int]]]:
    """Multiply the cells of a sweep side by side, a panel of all of them at a time.

    `ended`: what the sweep before has ended with, in each layer of workers. This one
    waits for it, since the sums of both would take twice the memory.
    """
    grid, settled = ex.grid, found.spec
    if spec.empty or (len(grid.panels) == 1 and not grid.sweeps):
        return [[(None, n)] for n in range(len(sweep))]
    stage = "sweep" if grid.sweeps else "panel"
    # Tasks that make their inputs multiply all of k.
    c = [ex.c_tile(x) for x in sweep] if len(grid.panels) == 1 else None
    needed = list_scales(spec, sweep, exponents)
    own, lines = dict(enumerate(sweep)), tuple(needed)
    # The last panel of a single part is multiplied where it is decoded.
    alone, sums = len(grid.parts) == 1 and c is None, list[list[Partial]]()
    early = None if ended else found.early
    for layer, parts in enumerate(grid.layers):
        sums.append([])
        for part in parts:
            before = ended.get(layer)
            for done, panel in enumerate(part[: len(part) - alone]):
                where, step = (*sweep[0], layer, panel[0]), SweepStep(own, lines, done)
                rows = [*operands(ex, found, needed, panel)]
                now = settled if early is None or done else early
                second = early is not None and done == 1
                if second:
                    # It takes the first panel again, in case that awaits the check.
                    rows = [*operands(ex, found, needed, part[0]), *rows]
                run = cells.multiply_second if second else cells.multiply_sweep
                before = ex.call(stage, where, run, now, step, before, c, *rows)
            sums[-1].append(Partial(layer, part[0][0], 1, before))
        ended[layer] = before
    return gather(ex, settled, sweep, sums)


def gather(
    ex: Interpreter, spec: Value, sweep: Sequence[Cell], sums: list[list[Partial]]
) -> list[list[tuple[Value, int]]]:
    """List for each cell the sums of all of k, with its place in each.

    A worker sends all at once what another one decodes. Sums of a cell alone are added
    pair by pair, where they lie, except the last two.
    """
    layers, every = len(sums), [x for own in sums for x in own]
    homes = [ex.grid.home(sweep, n) for n in range(len(sweep))]
    sent: dict[tuple[int, int], Value] = {}

    def add(place: tuple[int, ...], *both: Value) -> Value:
        given = ((x, 0) for x in both)
        return ex.call("reduce", (*sweep[0], *place), cells.add_parts, spec, *given)

    def find(x: Partial, n: int) -> tuple[Value, int]:
        if x.layer == homes[n]:
            return x.sums, n
        key, own = (x.first, homes[n]), slice(n, None, layers)
        if key not in sent:
            where = (*sweep[0], x.layer, *key)
            sent[key] = ex.call("part", where, cells.take_cells, spec, x.sums, own)
        return sent[key], n // layers

    if len(sweep) > 1 or len(every) == 1:
        return [[find(x, n) for x in every] for n in range(len(sweep))]
    own = sums[0] if layers == 1 else [add_up(x, add) for x in sums]
    own, half = own[homes[0] :] + own[: homes[0]], len(own) // 2
    return [[(add_up(x, add).sums, 0) for x in (own[:half], own[half:])]]


def finish(
    ex: Interpreter,
    spec: Spec,
    found: Findings,
    cell: Cell,
    sums: Sequence[tuple[Value, int]],
    exponents: Mapping[Line, Value],
) -> Value:
    """Decode a cell from its sums, or take its tile out of those of its sweep."""
    (i, j), grid, settled, c = cell, ex.grid, found.spec, ex.c_tile(cell)
    shape, diagonal = (grid.m[i], grid.n[j]), spec.routine.triangle and i == j
    if spec.empty:
        return ex.call("product", cell, cells.add_alone, spec, diagonal, shape, c)
    needed = list_scales(spec, [cell], exponents)
    if len(sums) > 1:
        join, scales = cells.finish_sums, needed.values()
        return ex.call(
            "product", cell, join, settled, diagonal, sums, c, shape, *scales
        )
    ((own, n),) = sums
    if grid.sweeps and len(grid.panels) == 1:
        return ex.call("product", cell, cells.take_tile, settled, own, n)
    last = operands(ex, found, needed, grid.panels[-1])
    if not grid.sweeps:
        end = cells.finish_cell
        return ex.call("product", cell, end, settled, diagonal, own, c, *last)
    step = SweepStep({n: cell}, tuple(needed), len(grid.panels) - 1)
    return ex.call("product", cell, cells.finish_in_sweep, settled, step, own, c, *last)


def scale(ex: Interpreter, spec: Spec, found: Findings) -> Mapping[Line, Value]:
    """Choose the largest powers of two for rows of tiles that the moduli allow."""
    measured, own = found.measured, [*lines(ex, spec, wanted=True)]
    if measured is None and len(ex.grid.strips) == 1:
        rows = {x[:2]: (y,) for x, y in strips(ex, own, found.shifts).items()}
        return ex.each("exponents", stages.scale_in_one, found.spec, rows)
    if measured is None:
        measured = add_strips(ex, spec, measure(ex, spec, own, found.shifts))
    if ex.grid.sweeps:
        return measured  # few tasks take them, and choose by themselves
    cases = {x: (measured[x],) for x in own}
    return ex.each("exponents", stages.choose_exponents, found.spec, cases)
