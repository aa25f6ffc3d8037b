"""The task graph of every routine: the only maker of task keys.

Keys are ``twom-<stage>-<token>`` so that dashboards group them by stage:

* ``twom-largest``, ``twom-sums``, ``twom-exponents`` with (side, i, step): scaling;
* ``twom-panel`` (i, j, step): panels along k but the last;
* ``twom-product`` (i, j): the last panel and the epilogue, a tile of C;
* ``twom-update`` (i, j): a tile of an update's result: an alias of a computed one, its
  mirror image, or zeros, made only if somebody asks for it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from dask.base import tokenize

from ..errors import portable_errors
from ..typing import Cell, Side
from . import tasks
from .blocks import check_block, check_tile
from .cells import Operand, Product, compute_cell, mirror_tile, multiply_cell
from .grid import Grid
from .spec import Spec, is_straight, load_engine
from .task_spec import Alias, List, Task, TaskRef

PRODUCT = "twom-product"
PANEL = "twom-panel"
UPDATE = "twom-update"
# Tiles of an equilibrated operand; see `scaled`.
SCALED = "twom-scaled"
SCALING_STAGES = ("twom-largest", "twom-columns", "twom-sums", "twom-exponents")
SIDES: tuple[Side, Side] = ("left", "right")

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Operands:
    """Names of the arrays whose chunks the tasks take; b is a for herk and syrk."""

    a: str
    b: str
    c: str | None = None


def result_name(spec: Spec, *parts: Any) -> str:
    """Name the result deterministically from everything that defines it."""
    stage = UPDATE if spec.routine.triangle else PRODUCT
    return f"{stage}-{tokenize(spec, *parts)}"


class TileTask(Task):
    """A task that keeps its key: fused into what follows, it would lose its place."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        """Tell dask's fusion of linear chains to leave this task alone."""
        return True


def build_layer(
    name: str,
    operands: Operands,
    grid: Grid,
    spec: Spec,
    cells: Iterable[Cell] | None = None,
) -> dict[Key, Task]:
    """Return the tasks of a result by key; `name` is from `result_name`.

    The grid of an update is square, m and n alike. `cells`: tiles of the result that
    are wanted; all of them by default.
    """
    return _Layer(name, operands, grid, spec).build(cells)


class _Layer:
    def __init__(self, name: str, operands: Operands, grid: Grid, spec: Spec) -> None:
        self.name, token = name, name.rpartition("-")[2]
        # One string a stage: a string remembers its hash, and keys are hashed often.
        self._stages = {
            stage: f"{stage}-{token}" for stage in (PRODUCT, PANEL, *SCALING_STAGES)
        }
        self.operands, self.grid, self.spec = operands, grid, spec
        self.tasks: dict[Key, Task] = {}
        self._refs: dict[tuple[Side, int], list[TaskRef]] = {}
        self._lists: dict[Any, List] = {}
        self._scaled: dict[tuple[Side, int], TaskRef] = {}

    def build(self, cells: Iterable[Cell] | None) -> dict[Key, Task]:
        """Return every task by key."""
        routine, mt, nt = self.spec.routine, self.grid.mt, self.grid.nt
        if not routine.triangle:
            for cell in routine.cells(mt, nt) if cells is None else cells:
                self._compute(cell)
            return self.tasks
        computed = set(routine.cells(mt, nt, self.spec.uplo))
        for cell in _square(mt) if cells is None else cells:
            self._place(cell, computed)
        return self.tasks

    def _place(self, cell: Cell, computed: set[Cell]) -> None:
        """Add the tile of an update's result, and the computed tile behind it."""
        (i, j), key = cell, (self.name, *cell)
        if cell not in computed and self.spec.uplo != "full":
            shape = (self.grid.m[i], self.grid.n[j])
            self.tasks[key] = Task(key, zero_tile, shape, self.spec)
            return
        source = self._compute(cell if cell in computed else (j, i))
        self.tasks[key] = (
            Alias(key, source)
            if cell in computed
            else Task(key, run_mirror, TaskRef(source), self.spec)
        )

    def _compute(self, cell: Cell) -> Key:
        """Chain the panels of a computed tile; the last one finishes it."""
        (i, j), spec = cell, self.spec
        key = (self._stages[PRODUCT], i, j)
        if key in self.tasks:
            return key
        c = None if self.operands.c is None else TaskRef((self.operands.c, i, j))
        if spec.empty and c is None:
            shape = (self.grid.m[i], self.grid.n[j])
            self.tasks[key] = TileTask(key, zero_tile, shape, spec)
            return key
        before: TaskRef | None = None
        *others, last = ((0, 0),) if spec.empty else self.grid.panels
        for step, panel in enumerate(others):
            call = (run_panel, spec, self._extent(cell, panel), before)
            before = TaskRef(
                self._add(PANEL, (i, j, step), *call, *self._products(cell, panel))
            )
        call = (run_cell, spec, self._extent(cell, last), before)
        self.tasks[key] = TileTask(key, *call, c, *self._products(cell, last))
        return key

    def _extent(self, cell: Cell, panel: tuple[int, int]) -> "Extent":
        (i, j), steps = cell, self.grid.k[slice(*panel)]
        diagonal = self.spec.routine.triangle and i == j
        return Extent(self.grid.m[i], self.grid.n[j], steps, diagonal)

    def _products(self, cell: Cell, panel: tuple[int, int]) -> list[Any]:
        """List tiles and exponents of both sides of each product, one after another."""
        if self.spec.empty:
            return []
        steps = range(*panel)
        return [
            given
            for pair in self.spec.routine.pairs(*cell)
            for side, index in zip(SIDES, pair, strict=True)
            for given in self._operand(side, index, steps)
        ]

    def _operand(self, side: Side, index: int, steps: range) -> tuple[Any, Any]:
        tiles = self._tiles(side, index, steps)
        return tiles, None if self.spec.native else self._exponents(side, index)

    def _tiles(self, side: Side, index: int, steps: range) -> List:
        """List a row of tiles; one object for all the tasks that take it."""
        side = "left" if self.spec.twins else side
        key = (side, index, steps)
        if key not in self._lists:
            refs = self._row(side, index)[steps.start : steps.stop]
            self._lists[key] = List(*refs)
        return self._lists[key]

    def _row(self, side: Side, index: int) -> list[TaskRef]:
        """List the input chunks that are row `index` of op(A) or op(B)^T."""
        row = side, index
        if row not in self._refs:
            name = self.operands.a if side == "left" else self.operands.b
            straight = is_straight(side, self.spec.op(side))
            self._refs[row] = [
                TaskRef((name, index, s) if straight else (name, s, index))
                for s in range(self.grid.kt)
            ]
        return self._refs[row]

    def _add(self, stage: str, index: tuple[Any, ...], *call: Any) -> Key:
        key = (self._stages[stage], *index)
        self.tasks[key] = Task(key, *call)
        return key

    def _exponents(self, side: Side, index: int) -> TaskRef:
        """Exponents of one row of tiles; those of A serve both sides of A A^H."""
        side = "left" if self.spec.twins else side
        if (side, index) not in self._scaled:
            self._scaled[side, index] = TaskRef(self._scale(side, index))
        return self._scaled[side, index]

    def _scale(self, side: Side, index: int) -> Key:
        """Two passes: the largest exponent over all of k, then exact square sums."""
        spec, where, steps = self.spec, (side, index), self.grid.k
        rows = (self.grid.m if side == "left" else self.grid.n)[index]
        tiles = [
            (ref, side, (rows, k))
            for ref, k in zip(self._row(side, index), steps, strict=True)
        ]
        if len(tiles) == 1:
            call = (run_scaling, tasks.scale_in_one, spec, *tiles[0])
            return self._add("twom-exponents", where, *call)
        of_tiles = [
            self._add(
                "twom-largest",
                (*where, s),
                *(run_scaling, tasks.largest_exponents, spec, *tile),
            )
            for s, tile in enumerate(tiles)
        ]
        largest = self._add(
            "twom-largest",
            (*where, "all"),
            *(tasks.combine_largest, List(*map(TaskRef, of_tiles))),
        )
        sums = [
            self._add(
                "twom-sums",
                (*where, s),
                *(run_scaling, tasks.square_sums, spec, *tile, TaskRef(largest)),
            )
            for s, tile in enumerate(tiles)
        ]
        return self._add(
            "twom-exponents",
            where,
            *(run_choice, spec, TaskRef(largest), List(*map(TaskRef, sums))),
        )


def _square(count: int) -> Iterable[Cell]:
    return ((i, j) for i in range(count) for j in range(count))


# --- what the tasks call ----------------------------------------------------------


class Extent(NamedTuple):
    """Sizes of a cell along m, n and a panel, and whether it is on the diagonal."""

    rows: int
    columns: int
    steps: tuple[int, ...]
    diagonal: bool


@contextmanager
def running(spec: Spec) -> Iterator[None]:
    """Scope of a task: the engine's, with errors that any process can receive."""
    with portable_errors(), load_engine(spec).task():
        yield


def run_scaling(
    function: Callable[..., Any],
    spec: Spec,
    block: Any,
    side: Side,
    shape: tuple[int, int],
    *largest: Any,
) -> Any:
    """Call a scaling task of one tile."""
    with running(spec):
        block = check_tile(block, shape, side, spec)
        return function(block, *largest, side, spec)


def run_choice(spec: Spec, largest: Any, sums: list[Any]) -> Any:
    """Call `choose_exponents`."""
    with running(spec):
        return tasks.choose_exponents(largest, sums, spec)


def run_panel(spec: Spec, extent: Extent, before: Any, *given: Any) -> Any:
    """Multiply one panel of a cell."""
    with running(spec):
        products = _receive(spec, extent, given)
        return multiply_cell(products, spec, extent.diagonal, before)


def run_cell(spec: Spec, extent: Extent, before: Any, c: Any, *given: Any) -> Any:
    """Multiply the last panel of a cell and finish it."""
    with running(spec):
        if spec.beta != 0:
            c = check_block(c, (extent.rows, extent.columns), spec)
        products = _receive(spec, extent, given)
        return compute_cell(products, spec, extent.diagonal, before, c)


def _receive(spec: Spec, extent: Extent, given: Sequence[Any]) -> list[Product]:
    """Check the tiles of a task, and pair them with their exponents.

    `given`: for each product left tiles, exponents, right tiles, exponents.
    """
    products = []
    # The second product of a cell is that of the cell on the other side.
    for n, sizes in enumerate(((extent.rows, extent.columns), extent[1::-1])):
        operands = given[4 * n : 4 * n + 4]
        if not operands:
            break
        left, right = (
            Operand(_check_tiles(tiles, rows, side, spec, extent), exponents)
            for tiles, exponents, rows, side in zip(
                operands[::2], operands[1::2], sizes, SIDES, strict=True
            )
        )
        products.append((left, right))
    return products


def _check_tiles(
    tiles: Sequence[Any], rows: int, side: Side, spec: Spec, extent: Extent
) -> list[Any]:
    return [
        check_tile(tile, (rows, k), side, spec)
        for tile, k in zip(tiles, extent.steps, strict=True)
    ]


def run_mirror(tile: Any, spec: Spec) -> Any:
    """Mirror a tile of the computed triangle."""
    with running(spec):
        return mirror_tile(tile, spec)


def zero_tile(shape: tuple[int, int], spec: Spec) -> Any:
    """Return a tile of the triangle that was not asked for."""
    with running(spec):
        family = import_module(load_engine(spec).family)
        return family.zeros(shape, spec.dtype)
