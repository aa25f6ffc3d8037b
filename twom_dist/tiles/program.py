"""The product, from top to bottom: the stages of every routine, in their order.

Stages make all decisions that depend on the entries of the matrices, so that eager
products, graphs and plans all run these lines, each with an `Interpreter` of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..typing import Cell
from . import stages
from .grid import Panel
from .interpreter import Found, Interpreter, Line, Looking, Shifts, Value
from .parts import Partial, add_up
from .spec import SIDES, Spec


def product(ex: Interpreter, spec: Spec) -> None:
    """Compute ``alpha op(A) op(B) + beta C``, or an update."""
    multiply(ex, spec, look(ex, spec))


def lines(ex: Looking, spec: Spec, wanted: bool = False) -> Iterator[Line]:
    """List rows of tiles of op(A) and op(B)^T; herk and syrk have one operand."""
    for side in spec.sides:
        for i in ex.lines(side, wanted):
            yield side, i


# --- what the data decide -------------------------------------------------------------


def look(ex: Looking, spec: Spec) -> Found:
    """Choose the shifts along k, then the moduli, where the spec leaves them open."""
    if not (spec.equilibrate or spec.grade):
        return Found(spec)
    shifts: Shifts = None
    seen: Mapping[Line, Any] = {}
    if spec.equilibrate:
        scan = stages.scan_tile
        seen = {x: measure(ex, spec, x, scan=scan) for x in lines(ex, spec)}
        shifts, seen = ex.decide(choose_shifts(ex, spec, seen), seen)
    if not spec.grade:
        return Found(spec, shifts)
    if shifts is not None or not seen:
        seen = {x: measure(ex, spec, x, shifts, seen.get(x)) for x in lines(ex, spec)}
    measured = ex.settle({x: whole for x, (whole, _) in seen.items()})
    settled = ex.settle(choose_moduli(ex, spec, shifts, measured))
    return Found(settled, shifts, measured)


def measure(
    ex: Looking,
    spec: Spec,
    line: Line,
    shifts: Shifts = None,
    before: Any = None,
    scan: Callable[..., Any] = stages.square_sums,
) -> tuple[Value, list[Value]]:
    """Find the largest exponents over all of k, then exact sums.

    Returns findings for whole rows and for each tile; `before`: those without shifts.
    """
    again = () if shifts is None else ("shifted",)
    old = [None] * ex.grid.kt if before is None else before[1]
    rows = [ex.row(line, range(s, s + 1), shifts) for s in range(ex.grid.kt)]
    tiles = [*zip(range(ex.grid.kt), rows, old, strict=True)]
    largest = [
        ex.call("largest", (*line, s, *again), stages.largest_exponents, spec, x, y)
        for s, x, y in tiles
    ]
    whole = ex.gather("largest", (*line, *again), stages.combine_largest, largest)
    sums = [
        ex.call("sums", (*line, s, *again), scan, spec, x, whole, y)
        for s, x, y in tiles
    ]
    return ex.gather("sums", (*line, *again), stages.add_sums, sums), sums


def choose_shifts(
    ex: Looking, spec: Spec, seen: Mapping[Line, tuple[Value, list[Value]]]
) -> list[Value]:
    """Choose e for each tile along k, from the extreme exponents of all columns."""
    columns: list[list[Value]] = []
    for side in spec.sides:
        of_tiles = [seen[side, i][1] for i in ex.lines(side, wanted=False)]
        steps, combine = enumerate(zip(*of_tiles, strict=True)), stages.combine_columns
        columns.append([ex.gather("columns", (side, s), combine, x) for s, x in steps])
    found = ex.call("shifts", ("all",), stages.choose_shifts, spec, *columns)
    return [
        ex.call("shifts", (s,), stages.take_shifts, spec, found, s)
        for s in range(ex.grid.kt)
    ]


def choose_moduli(
    ex: Looking, spec: Spec, shifts: Shifts, measured: Mapping[Line, Value]
) -> Value:
    """Choose moduli by the ratio of norms to ``|A| |B|``, of some rows or of all."""

    def take(line: Line, chosen: Value) -> list[Value]:
        """Take magnitudes of the chosen rows, tile by tile."""
        known = measured[line], chosen, line[1]
        rows = [ex.row(line, range(s, s + 1), shifts) for s in range(ex.grid.kt)]
        return [
            ex.call("sample", (*line, s), stages.sample_rows, spec, row, *known)
            for s, row in enumerate(rows)
        ]

    samples, known = [], []
    for side in spec.sides:
        rows = [measured[side, i] for i in ex.lines(side, wanted=False)]
        chosen = ex.call("sample", (side,), stages.choose_rows, spec, rows)
        known.append((chosen, rows))
        rows_of_side = ex.lines(side, wanted=False)
        samples.append({i: take((side, i), chosen) for i in rows_of_side})
    (left, right), found = (samples[0], samples[-1]), []
    if spec.grade == "componentwise":
        for cell in ex.cells():
            for i, j in spec.routine.pairs(*cell):
                given = left[i], right[j], (i, *known[0]), (j, *known[-1])
                where = "cell", i, j
                found.append(ex.call("sample", where, stages.cell_ratio, spec, *given))
        return ex.call("spec", (0,), stages.settle_by_cells, spec, found)
    for s in range(ex.grid.kt):
        both = ([tiles[s] for tiles in side.values()] for side in (left, right))
        found.append(ex.call("sample", (s,), stages.bound_tiles, spec, *both))
    return ex.call("spec", (0,), stages.settle, spec, found, known[0], known[-1])


# --- the product ----------------------------------------------------------------------


def multiply(ex: Interpreter, spec: Spec, found: Found) -> None:
    """Scale rows of op(A) and columns of op(B), then compute C cell by cell."""
    exponents: dict[Line, Value] = {}
    if not (spec.native or spec.exact or spec.empty):
        exponents = {x: scale(ex, spec, found, x) for x in lines(ex, spec, wanted=True)}
    for i, j in ex.cells():
        tile = multiply_cell(ex, spec, found, (i, j), exponents)
        ex.emit((i, j), tile)
        if spec.routine.triangle and i != j:
            full, shape = spec.uplo == "full", (ex.grid.n[j], ex.grid.m[i])
            other = stages.mirror_tile if full else stages.zero_tile
            own = tile if full else shape
            ex.emit((j, i), ex.call("update", (j, i), other, spec, own))


def multiply_cell(
    ex: Interpreter, spec: Spec, found: Found, cell: Cell, exponents: dict[Line, Value]
) -> Value:
    """Multiply all parts of k, panel by panel; add the parts, and decode their sum."""
    (i, j), grid, c = cell, ex.grid, ex.added(cell)
    shape, diagonal = (grid.m[i], grid.n[j]), spec.routine.triangle and i == j
    if spec.empty:
        return ex.call("product", cell, stages.add_alone, spec, diagonal, shape, c)
    both = [x for own in spec.routine.pairs(i, j) for x in zip(SIDES, own, strict=True)]
    scales = [exponents.get((spec.own(side), x)) for side, x in both]

    def operands(panel: Panel) -> Iterator[Value]:
        for line, scale in zip(both, scales, strict=True):
            yield ex.row(line, range(*panel), found.shifts)
            yield scale

    def add(place: tuple[int, ...], x: Value, y: Value) -> Value:
        return ex.call("reduce", (*cell, *place), stages.add_parts, found.spec, x, y)

    alone, layers = len(grid.parts) == 1, []
    for layer, parts in enumerate(grid.layers):
        sums = []
        for part in parts:
            before = None
            # The last panel of a single part is multiplied where it is decoded.
            for panel in part[: len(part) - alone]:
                given = found.spec, diagonal, before, *operands(panel)
                where = *cell, layer, panel[0]
                before = ex.call("panel", where, stages.multiply_panel, *given)
            sums.append(Partial(layer, part[0][0], 1, before))
        layers.append(add_up(sums, add))
    if alone:
        given = found.spec, diagonal, before, c, *operands(grid.panels[-1])
        return ex.call("product", cell, stages.finish_cell, *given)
    # Cells beside one another end on different layers.
    turn = (i + j) % len(layers)
    total = add_up(layers[turn:] + layers[:turn], add).sums
    given = found.spec, diagonal, total, c, shape, *scales
    return ex.call("product", cell, stages.finish_sums, *given)


def scale(ex: Interpreter, spec: Spec, found: Found, line: Line) -> Value:
    """Choose the largest powers of two for rows of tiles that the moduli allow."""
    if found.measured is not None:
        measured = found.measured[line]
    elif ex.grid.kt == 1:
        row = ex.row(line, range(1), found.shifts)
        where = *line, 0
        return ex.call("exponents", where, stages.scale_in_one, found.spec, row)
    else:
        measured, _ = measure(ex, spec, line, found.shifts)
    return ex.call("exponents", line, stages.choose_exponents, found.spec, measured)
