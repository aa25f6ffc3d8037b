"""Tasks and int8 products of a product.

Tasks are counted by a run of the program, in which one row or cell stands for all of
its kind: thousands of tiles take as long as a few. A formula counts int8 products.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple

from ..tiles import program
from ..tiles.grid import Grid
from ..tiles.interpreter import Analyser, Findings, Line, lines
from ..tiles.routine import PairBlock
from ..tiles.spec import Spec
from ..typing import Cell, Side


class Counts(NamedTuple):
    """Numbers of tasks in a graph, int8 products of tiles, and int8 operations."""

    tasks: int
    gemms: int
    operations: int


def count(
    grid: Grid, spec: Spec, job: bool, streams: bool, beside: Cell | None = None
) -> Counts:
    """Count tasks and products; `job` and `streams` are those of `Plan`.

    `beside`: rows and columns of a rectangle beside the diagonal of an update, whose
    tiles alone are computed. Inputs that tasks make again are fingerprinted unless they
    are files.
    """
    ex = _Counting(grid, spec, job, checked=streams and not job, beside=beside)
    if job:
        # A check of all data comes first; each row it has measured is a task.
        own = lines(ex, spec, wanted=True) if spec.data_driven else ()
        measured = {x: ex.call("sums", x, None) for x in own} or None
        program.multiply(ex, spec, Findings(spec, None, measured))
    else:
        program.product(ex, spec)
    return Counts(ex.tasks, *count_products(grid, spec))


def count_products(grid: Grid, spec: Spec) -> tuple[int, int]:
    """Count int8 products of tiles, and their operations."""
    if spec.native or spec.empty:
        return 0, 0
    each, (m, n, k) = spec.system.num_products, grid.shape
    if not spec.routine.triangle:
        return each * grid.mt * grid.nt * grid.kt, each * 2 * m * n * k
    diagonal = each
    if spec.hermitian_product:
        diagonal = spec.system.num_hermitian_products
    # Tiles of a triangle have one product or two, and those on the diagonal one.
    each *= 2 if spec.routine.sums else 1
    squares = sum(size * size for size in grid.n)
    tiles = diagonal * grid.nt + each * (grid.nt * (grid.nt - 1) // 2)
    entries = diagonal * squares + each * ((n * n - squares) // 2)
    return tiles * grid.kt, 2 * entries * k


# A sweep of each kind, and how many there are.
Kinds = list[tuple[tuple[Cell, ...], int]]


class _Counting(Analyser):
    """An interpreter of `program` whose values are numbers of instances."""

    def __init__(
        self, grid: Grid, spec: Spec, job: bool, *, checked: bool, beside: Cell | None
    ) -> None:
        self.grid, self._spec, self._job, self._beside = grid, spec, job, beside
        self._scaled: set[int] = set()  # tiles of the diagonal between op(A) and op(B)
        self.tasks = 0
        if checked:
            # `tiles.dask.streamed` adds two tasks to the first read of a row; where no
            # analysis has read the rows, each is read once more for its checksums.
            lines = grid.nt if spec.same_operand else grid.mt + grid.nt
            unseen = spec.native or spec.exact
            self.tasks = lines * len(grid.panels if unseen else grid.strips * 2)
        self._weight = 1  # instances for which the program's current line stands

    def _each(self, items: Iterable[tuple[Any, int]]) -> Iterator[Any]:
        outside = self._weight
        for item, number in items:
            self._weight = outside * number
            yield item
        self._weight = outside

    def _groups_of(self, side: Side) -> Sequence[int]:
        """Return the group of each row of tiles of a side that cells need."""
        # One matrix, scaled and not, has one side of a rectangle each.
        spec = self._spec
        own = self._beside if len(spec.sides) > spec.routine.matrices else None
        return range(own[side == "right"]) if own else self.grid.groups_of(side)

    def lines(self, side: Side, wanted: bool) -> Iterable[int]:
        count = len(self._groups_of(side))
        # Two stand for more: what several rows find is combined.
        return self._each([(0, 1), (1, count - 1)][: min(count, 2)])

    def sweeps(self) -> Iterable[Sequence[Sequence[Cell]]]:
        kinds = _sweep_kinds(self.grid) or self._cell_kinds()
        return ([sweep] for sweep in self._each(kinds))

    def _cell_kinds(self) -> Kinds:
        """List cells of each kind: of a triangle, on the diagonal and beside it."""
        mt, nt = self.grid.mt, self.grid.nt
        if not self._spec.routine.triangle:
            return [(((0, 0),), mt * nt)]
        other = (0, 1) if self._spec.uplo == "upper" else (1, 0)
        if self._beside is not None:
            return [((other,), prod(self._beside))]
        found: Kinds = [(((0, 0),), nt), ((other,), nt * (nt - 1) // 2)]
        return found[: min(nt, 2)]

    def pair_blocks(self) -> Iterable[PairBlock]:
        grid, routine = self.grid, self._spec.pair_routine
        (one,) = routine.pair_blocks(1, 1, grid.pair_block)
        count = routine.count_pair_blocks(grid.mt, grid.nt, grid.pair_block)
        if not grid.goes_along_k:
            return self._each([(one, count)])
        share, layers = self._spec.share_pairs, len(grid.layers)
        kinds = ((x, n) for own, n in _sweep_kinds(grid) for x in share(own, layers))
        return self._each((one._replace(where=x.where), n) for x, n in kinds)

    def row(self, line: Line, steps: range, shifts: Any) -> range:
        if len(self._spec.factors) > 2 and line[0] == "left":
            self.tasks += len({*steps} - self._scaled)
            self._scaled |= {*steps}
        return steps

    def c_tile(self, cell: Cell) -> int | None:
        return self._weight if self._spec.beta != 0 else None

    def call(self, stage: str, where: Any, function: Any, *args: Any) -> int:
        if not (stage == "update" and self._job):
            self.tasks += self._weight
        return self._weight

    def each(
        self, stage: str, function: Any, spec: Any, cases: Any, more: Any = ()
    ) -> Any:
        kinds = {(side, *rest) for side, _, *rest in cases}
        self.tasks += sum(len({*self._groups_of(x)}) for x, *_ in kinds)
        return dict.fromkeys(cases, 1)

    def pick(self, found: Any, n: int) -> Any:
        return found

    def emit(self, cell: Cell, tile: Any) -> None:
        pass  # an alias is not a task


def _sweep_kinds(grid: Grid) -> Kinds:
    """List a sweep of each kind, with the number of those that have as many tasks."""
    kinds: dict[Any, list[tuple[Cell, ...]]] = {}
    for sweep in chain.from_iterable(grid.sweeps):
        kinds.setdefault((len(sweep), sum(i == j for i, j in sweep)), []).append(sweep)
    return [(alike[0], len(alike)) for alike in kinds.values()]
