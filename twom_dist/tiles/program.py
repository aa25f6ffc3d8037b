"""The product, from top to bottom: the stages of every routine, in their order.

Stages make all decisions that depend on the entries of the matrices, so that eager
products, graphs and plans all run these lines, each with an `Interpreter` of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import stages
from .interpreter import Found, Interpreter, Line, Looking, Value
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
    shifts: Sequence[Value] | None = None
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
    shifts: Sequence[Value] | None = None,
    before: Any = None,
    scan: Callable[..., Any] = stages.square_sums,
) -> tuple[Value, list[Value]]:
    """Find the largest exponents over all of k, then exact sums.

    Returns findings for whole rows and for each tile; `before`: those without shifts.
    """
    again = () if shifts is None else ("shifted",)
    old = [None] * ex.grid.kt if before is None else before[1]
    tiles = [
        (s, ex.row(line, range(s, s + 1), shifts), old[s]) for s in range(ex.grid.kt)
    ]
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
        combine = stages.combine_columns
        columns.append(
            [
                ex.gather("columns", (side, s), combine, of_step)
                for s, of_step in enumerate(zip(*of_tiles, strict=True))
            ]
        )
    found = ex.call("shifts", ("all",), stages.choose_shifts, spec, *columns)
    return [
        ex.call("shifts", (s,), stages.take_shifts, spec, found, s)
        for s in range(ex.grid.kt)
    ]


def choose_moduli(
    ex: Looking,
    spec: Spec,
    shifts: Sequence[Value] | None,
    measured: Mapping[Line, Value],
) -> Value:
    """Choose moduli by the ratio of norms to ``|A| |B|``, of some rows or of all."""
    samples, known = [], []
    for side in spec.sides:
        rows = [measured[side, i] for i in ex.lines(side, wanted=False)]
        chosen = ex.call("sample", (side,), stages.choose_rows, spec, rows)
        known.append((chosen, rows))
        samples.append(
            {
                i: sample(ex, spec, (side, i), shifts, measured[side, i], chosen)
                for i in ex.lines(side, wanted=False)
            }
        )
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


def sample(
    ex: Looking,
    spec: Spec,
    line: Line,
    shifts: Sequence[Value] | None,
    measured: Value,
    chosen: Value,
) -> list[Value]:
    """Take magnitudes of the chosen rows, tile by tile."""
    given = measured, chosen, line[1]
    found = []
    for s in range(ex.grid.kt):
        row = ex.row(line, range(s, s + 1), shifts)
        call = stages.sample_rows, spec, row, *given
        found.append(ex.call("sample", (*line, s), *call))
    return found


# --- the product ----------------------------------------------------------------------


def multiply(ex: Interpreter, spec: Spec, found: Found) -> None:
    """Scale rows of op(A) and columns of op(B), then compute C cell by cell."""
    exponents: dict[Line, Value] = {}
    if not (spec.native or spec.exact or spec.empty):
        exponents = {x: scale(ex, spec, found, x) for x in lines(ex, spec, wanted=True)}
    routine, grid = spec.routine, ex.grid
    *panels, last = ((0, 0),) if spec.empty else grid.panels
    for i, j in ex.cells():
        pairs = [] if spec.empty else routine.pairs(i, j)
        both = [line for pair in pairs for line in zip(SIDES, pair, strict=True)]
        scales = [exponents.get((spec.own(side), x)) for side, x in both]

        def operands(
            panel: tuple[int, int], both: Any = both, scales: Any = scales
        ) -> Iterator[Value]:
            for line, scale in zip(both, scales, strict=True):
                yield ex.row(line, range(*panel), found.shifts)
                yield scale

        diagonal, shape = routine.triangle and i == j, (grid.m[i], grid.n[j])
        before, c, where = None, ex.added((i, j)), (i, j)
        for n, panel in enumerate(panels):
            given: Any = found.spec, diagonal, before, *operands(panel)
            before = ex.call("panel", (*where, n), stages.multiply_panel, *given)
        if spec.empty and c is None:
            tile = ex.call("product", where, stages.zero_tile, spec, shape)
        else:
            given = found.spec, diagonal, before, c, *operands(last)
            tile = ex.call("product", where, stages.finish_cell, *given)
        ex.emit(where, tile)
        if routine.triangle and i != j:
            given = (spec, tile) if spec.uplo == "full" else (spec, shape[::-1])
            other = stages.mirror_tile if spec.uplo == "full" else stages.zero_tile
            ex.emit((j, i), ex.call("update", (j, i), other, *given))


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
