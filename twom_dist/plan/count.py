"""Tasks and int8 products of a product, counted by a run of the program.

One row or cell stands for all of its size: thousands of tiles take as long as a few.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from math import comb
from typing import Any, NamedTuple

from ..tiles import program
from ..tiles.accumulator import SweepStep
from ..tiles.grid import Chunks, Grid
from ..tiles.interpreter import Analyser, Line
from ..tiles.routine import PairBlock
from ..tiles.spec import Spec
from ..typing import Cell, Side


class Counts(NamedTuple):
    """Numbers of tasks in a graph, int8 products of tiles, and int8 operations."""

    tasks: int
    gemms: int
    operations: int


def count(grid: Grid, spec: Spec, job: bool, streams: bool) -> Counts:
    """Count tasks and products; `job` and `streams` are those of `Plan`.

    Inputs that tasks make again are fingerprinted unless they are files.
    """
    ex = _Counting(grid, spec, job, checked=streams and not job)
    program.product(ex, spec)
    return Counts(ex.tasks, ex.gemms, ex.operations)


class _Counting(Analyser):
    """An interpreter of `program` whose values are numbers of instances."""

    def __init__(self, grid: Grid, spec: Spec, job: bool, *, checked: bool) -> None:
        self.grid, self._spec, self._job, self._checked = grid, spec, job, checked
        self.tasks = self.gemms = self.operations = 0
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

    def lines(self, side: Side, wanted: bool) -> Iterable[int]:
        sizes = self.grid.m if side == "left" else self.grid.n
        return self._each(_representatives(sizes))

    def sweeps(self) -> Iterable[Sequence[Sequence[Cell]]]:
        if self.grid.sweeps:
            kinds = _sweep_kinds(self.grid)
        else:
            routine, uplo = self._spec.routine, self._spec.uplo
            kinds = [((x,), n) for x, n in _kinds(self.grid, routine.triangle, uplo)]
        return ([sweep] for sweep in self._each(kinds))

    def pair_blocks(self) -> Iterable[PairBlock]:
        grid, routine = self.grid, self._spec.pair_routine
        count = routine.count_pair_blocks(grid.mt, grid.nt, grid.pair_block)
        return self._each([(routine.pair_blocks(1, 1, grid.pair_block)[0], count)])

    def row(self, line: Line, steps: range, shifts: Any) -> range:
        return steps

    def c_tile(self, cell: Cell) -> int | None:
        return self._weight if self._spec.beta != 0 else None

    def call(self, stage: str, where: Any, function: Any, *args: Any) -> int:
        if not (stage == "update" and self._job):
            self.tasks += self._weight
        rows = [x for x in args if isinstance(x, range)]
        multiplies = stage in ("panel", "sweep", "product") and rows
        if multiplies and not (self._spec.native or self._spec.empty):
            step = next((x for x in args if isinstance(x, SweepStep)), None)
            for cell in [where[:2]] if step is None else step.cells:
                self._count_products(cell, rows[0])
        return self._weight

    def _count_products(self, cell: Cell, steps: range) -> None:
        (i, j), spec, grid = cell, self._spec, self.grid
        each = spec.system.num_products
        if spec.hermitian_product and i == j:
            each = spec.system.num_hermitian_products
        number = self._weight * each * len(spec.routine.pairs(i, j))
        k = sum(grid.k[steps.start : steps.stop])
        self.gemms += number * len(steps)
        self.operations += number * 2 * grid.m[i] * grid.n[j] * k

    def each(
        self, stage: str, function: Any, spec: Any, cases: Any, more: Any = ()
    ) -> Any:
        kinds = {(side, *rest) for side, _, *rest in cases}
        self.tasks += sum(len({*self.grid.groups_of(x)}) for x, *_ in kinds)
        return dict.fromkeys(cases, 1)

    def pick(self, found: Any, n: int) -> Any:
        return found

    def emit(self, cell: Cell, tile: Any) -> None:
        pass  # an alias is not a task


@lru_cache(maxsize=64)
def _representatives(sizes: Chunks) -> list[tuple[int, int]]:
    """List representative rows of tiles, each with the number of rows it stands for.

    >>> _representatives((4, 4, 4, 2))
    [(0, 2), (1, 1), (3, 1)]
    """
    found = []
    for size, number in Counter(sizes).items():
        first = sizes.index(size)
        if number > 1:
            found.append((first, number - 1))
            first = sizes.index(size, first + 1)
        found.append((first, 1))
    return found


@lru_cache(maxsize=64)
def _kinds(grid: Grid, triangle: bool, uplo: str) -> list[tuple[Cell, int]]:
    """List representative cells, each with the number of cells it stands for.

    >>> _kinds(Grid((4, 4), (4, 4), (1,), ()), True, "full")
    [((0, 0), 2), ((1, 0), 1)]
    """
    rows, columns = (
        [(sizes.index(size), number) for size, number in Counter(sizes).items()]
        for sizes in (grid.m, grid.n)
    )
    if not triangle:
        return [((i, j), x * y) for i, x in rows for j, y in columns]
    found = [((i, i), x) for i, x in rows]
    for place, (i, x) in enumerate(rows):
        if x > 1:
            second = grid.m.index(grid.m[i], i + 1)
            found.append((_order(second, i, uplo), comb(x, 2)))
        found += [(_order(i, j, uplo), x * y) for j, y in rows[:place]]
    return found


@lru_cache(maxsize=64)
def _sweep_kinds(grid: Grid) -> list[tuple[tuple[Cell, ...], int]]:
    """List representative sweeps, each with the number of those of the same sizes."""
    kinds: dict[Any, list[tuple[Cell, ...]]] = defaultdict(list)
    for sweep in chain.from_iterable(grid.sweeps):
        sizes = Counter((grid.m[i], grid.n[j], i == j) for i, j in sweep)
        kinds[frozenset(sizes.items())].append(sweep)
    return [(alike[0], len(alike)) for alike in kinds.values()]


def _order(i: int, j: int, uplo: str) -> Cell:
    return (min(i, j), max(i, j)) if uplo == "upper" else (max(i, j), min(i, j))
