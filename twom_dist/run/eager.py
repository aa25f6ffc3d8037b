"""Results of NumPy and CuPy arrays, at once: the program over views of the matrices."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..errors import warn_of_native
from ..kernels.analysis import Analysis
from ..kernels.device_memory import empty
from ..kernels.family import join, namespace
from ..kernels.limits import TileLimits, Update, host_limits
from ..problem.problem import Problem
from ..tiles import program, tasks
from ..tiles.analysis.equilibration import may_gain
from ..tiles.analysis.in_memory import decide, find_shifts, plan_analysis
from ..tiles.blocks import cast
from ..tiles.grid import Chunks, Grid, cut, cut_inner, offsets, whole
from ..tiles.interpreter import Analyser, Findings, Line, lines
from ..tiles.routine import PairBlock
from ..tiles.rows import Row, shifts_of_both
from ..tiles.spec import Spec, is_straight, load_engine
from ..typing import Array, Cell, Side

_MADE_ENTRIES = 2**22  # of op(A), 64 MiB, at a time where all of it is analysed


def compute(problem: Problem, analysis: Analysis | None = None) -> Any:
    """Compute the result of a problem whose matrices are arrays in memory.

    `analysis`: what `plan_analysis` has found of these.
    """
    found = _compute_words(problem, analysis)
    if problem.out is not None and found is not problem.out:
        problem.out[...] = found
        return problem.out
    return tuple(found) if problem.spec.components == 2 else found


def _compute_words(problem: Problem, analysis: Analysis | None) -> Array:
    dtype, spec, shape = problem.dtype, problem.spec, problem.shape
    c = None if problem.c is None else cast(problem.c, dtype)
    if spec.empty:
        if c is None:
            return namespace(problem.a).zeros(spec.tile_shape(*shape[:2]), dtype)
        rows = Row("left", [problem.a]), Row("right", [problem.b])
        ex = Eager(rows, c, whole(shape), spec, problem.out)
        return ex.run(Findings(spec))
    left = problem.row(as_tiles(problem.a, spec))
    if spec.native or (left.made and load_engine(spec).waits):
        left = left.whole(spec)  # the engine would take it whole anyway
    b = left.tiles[0] if spec.same_operand else as_tiles(problem.b, spec)
    found, rows = Findings(spec), (left, Row("right", [b]))
    if spec.looks:
        found = look(rows, spec, shape, analysis)
        for row in rows:
            row.shifts = found.shifts
    if spec.data_driven:
        problem = replace(problem, spec=found.spec)
        if found.spec.native:
            warn_of_native()
    spec = problem.spec
    limits = _limit_tiles(problem)
    if (
        limits.gemm_fused is None
        or spec.components > 1
        or (spec.exact and not spec.system.wraps)
    ):
        return _multiply(problem, rows, c, found, limits)
    # A product of one tile, by one call of the engine.
    integers = "" if problem.out is not None else problem.integers
    fused = limits.gemm_fused
    multiply = tasks.call_fused(fused, spec, stored=False, integers=integers)
    x, y = (row.view(0, spec) for row in rows)
    out, shifts = _contiguous(problem.out), shifts_of_both(rows, spec)
    known = None if found.measured is None else [*found.measured.values()]
    return multiply(x, y, c=c, out=out, shifts=shifts, known=known)


def prepare_fused(problem: Problem, alike: Hashable) -> Callable[..., Array] | None:
    """Return a function that computes this product of any arrays like those it has now.

    None where the data decide about anything, and where an array has to be converted.
    `alike`: names such arrays.
    """
    spec, c, out = problem.spec, problem.c, problem.out
    if problem.stack or spec.lazy or spec.looks or spec.empty or spec.exact:
        return None
    own = spec.components == 1 and not spec.stored and not spec.native
    own = own and problem.a.dtype == problem.b.dtype == spec.operand_dtype
    own = own and (c is None or c.dtype == problem.dtype)
    if not own or (out is not None and not out.flags.c_contiguous):
        return None
    limits = _limit_tiles(problem)
    if limits.gemm_fused is None or not limits.steady:
        return None
    return tasks.call_fused(limits.gemm_fused, spec, alike)


def as_tiles(x: Array, spec: Spec) -> Array:
    """Return a matrix whose views are tiles; stored integers are widened later."""
    return x if spec.stored else cast(x, spec.operand_dtype)


def look(
    rows: tuple[Row, Row],
    spec: Spec,
    shape: tuple[int, ...],
    analysis: Analysis | None = None,
) -> Findings:
    """Analyse whole matrices, or a few columns at a time where these are made.

    `analysis`: what `plan_analysis` has found of them.
    """
    if rows[0].made:
        grid = whole(shape, max(64, _MADE_ENTRIES // shape[0]))
        found = program.look(Views(rows, grid, spec), spec)
        return found._replace(shifts=found.shifts and [join(found.shifts)])
    own = rows[: len(spec.sides)]
    views, both, shifts = [row.view(0, spec) for row in own], None, None
    analyse = plan_analysis(spec)
    if analysis is None:
        analysis = analyse(views)
    columns = analysis.columns
    if columns is not None and may_gain(columns[:, 0].tolist(), spec.k):
        shifts = find_shifts(analysis, spec)
    if shifts is not None:
        for row in own:
            row.shifts = [shifts]
        both = shifts_of_both(own, spec)
        analysis = analyse(views, columns=False, shifts=both)
    statistics = zip(own, analysis.statistics(), strict=True)
    measured = {(row.side, 0): x for row, x in statistics}
    if spec.data_driven:
        spec = spec.with_moduli(*decide(views, analysis, spec, both))
    return Findings(spec, None if shifts is None else [shifts], measured)


def _multiply(
    problem: Problem,
    rows: tuple[Row, Row],
    c: Array | None,
    found: Findings,
    limits: TileLimits,
) -> Array:
    spec, largest = problem.spec, (limits.mb, limits.nb, limits.kb)
    m, n, k = map(cut, problem.shape, largest)
    # Only one tile a side: kept planes help if those of the right come from the left.
    alone = len(m) == len(n) == 1
    kept = 0 if alone and not spec.same_operand else limits.cache_bytes
    if kept != spec.cache_bytes:
        spec = replace(spec, cache_bytes=kept)
    grid = Grid(m, n, k, cut_inner(len(k), 1, 1, len(k)))
    flat = max(1, limits.nb // limits.mb)
    ex = Eager(rows, c, grid, spec, problem.out, flat)
    return ex.run(found._replace(spec=spec))


def _contiguous(out: Any) -> Any:
    """Return out if an engine can write to it directly, else None."""
    return None if out is None or not out.flags.c_contiguous else out


def _limit_tiles(problem: Problem) -> TileLimits:
    """Choose the largest tiles; a native product is one."""
    spec, shape = problem.spec, problem.shape
    update = None
    if spec.routine.triangle:
        update = Update(spec.hermitian_product, two=not spec.same_operand)
    elif spec.native:
        return TileLimits(*shape, cache_bytes=0)
    if spec.native:
        return host_limits(shape, update)
    return load_engine(spec).tile_limits(spec.system, shape, update)


def _slice(sizes: Chunks) -> list[slice]:
    return [slice(*ends) for ends in offsets(sizes)]


class Views(Analyser):
    """The interpreter of `program` that calls each stage, with views of matrices.

    These come as rows of one tile.
    """

    def __init__(self, rows: tuple[Row, Row], grid: Grid, spec: Spec) -> None:
        self.grid, self._spec = grid, spec
        self._rows: dict[Side, Row] = {"left": rows[0], "right": rows[1]}
        self._slices = {"left": _slice(grid.m), "right": _slice(grid.n)}
        self._steps = _slice(grid.k)
        # Encoded tiles live in the cache as long as the views that they are made of.
        self._views: dict[tuple[Side, int, range], list[Array]] = {}

    def lines(self, side: Side, wanted: bool) -> Iterable[int]:
        return range(len(self._slices[side]))

    def cells(self) -> list[Cell]:
        """List the tiles of C that are computed."""
        return self._spec.routine.cells(self.grid.mt, self.grid.nt, self._spec.uplo)

    def sweeps(self) -> Iterable[Sequence[Sequence[Cell]]]:
        return [[[cell]] for cell in self.cells()]

    def pair_blocks(self) -> Iterable[PairBlock]:
        grid, routine = self.grid, self._spec.pair_routine
        return routine.pair_blocks(grid.mt, grid.nt, grid.pair_block)

    def row(self, line: Line, steps: range, shifts: Sequence[Any] | None) -> Row:
        (side, i), own = line, slice(steps.start, steps.stop)
        # Each tile has one view, by whose identity its planes are found.
        key = self._spec.side_of(side), i, steps
        found = self._views.get(key)
        if found is None:
            x, rows = self._rows[side].tiles[0], self._slices[side][i]
            straight = is_straight(side, self._spec.op(side))
            found = self._views[key] = [
                x[..., rows, step] if straight else x[..., step, rows]
                for step in self._steps[own]
            ]
        shifts = None if shifts is None else shifts[own]
        return self._rows[side].cut(found, self._steps[own], shifts)

    def decide(self, shifts: Any, before: Any) -> tuple[Any, Any]:
        return (None, before) if shifts[0] is None else (shifts, {})


class Eager(Views):
    """The interpreter that puts the tiles into a result."""

    def __init__(
        self,
        rows: tuple[Row, Row],
        c: Array | None,
        grid: Grid,
        spec: Spec,
        out: Array | None,
        flat: int = 1,
    ) -> None:
        super().__init__(rows, grid, spec)
        self._c, self._flat, self.out = c, flat, out
        self._place: Array | None = None  # where a stage may write its tile
        if out is None and (grid.mt, grid.nt) != (1, 1):
            shape = spec.tile_shape(*grid.shape[:2])
            self.out = empty(namespace(rows[0].tiles[0]), shape, spec.dtype)

    def run(self, found: Findings) -> Array:
        """Multiply, by the findings of whole matrices, and return the result."""
        spec, shifts, measured, _ = found
        if shifts is not None:
            shifts = [shifts[0][step] for step in self._steps]
        if measured is not None:
            measured = {
                (side, i): measured[side, 0].take((..., self._slices[side][i]))
                for side, i in lines(self, spec)
            }
        program.multiply(self, self._spec, Findings(spec, shifts, measured))
        return self.out

    def cells(self) -> list[Cell]:
        """List them in an order that finds encoded tiles again."""
        found = super().cells()
        if not self._spec.routine.triangle:
            found.sort(key=lambda cell: (cell[0] // self._flat, cell[1], cell[0]))
        return found

    def c_tile(self, cell: Cell) -> Array | None:
        return None if self._c is None else self._c[self._at(cell)]

    def call(self, stage: str, where: Any, function: Any, *args: Any) -> Any:
        if stage not in ("product", "update"):
            return function(*args)
        place, whole = None, self.out
        if whole is not None:
            place = whole[self._at(where)]
            if not (whole.flags.c_contiguous and load_engine(self._spec).writes_parts):
                place = _contiguous(place)
        self._place = place
        return function(*args, out=self._place)

    def emit(self, cell: Cell, tile: Array) -> None:
        if self.out is None:
            self.out = tile
        elif tile is not self._place:
            self.out[self._at(cell)] = tile
        if self.grid.nt == 1:
            # The product needs neither these rows nor their planes again.
            for key in [x for x in self._views if x[:2] == ("left", cell[0])]:
                del self._views[key]

    def _at(self, cell: Cell) -> tuple[Any, ...]:
        return ..., self._slices["left"][cell[0]], self._slices["right"][cell[1]]
