"""The task graph of every routine: the only maker of task keys.

Keys are ``twom-<stage>-<token>`` so that dashboards group them by stage; besides those
of `scaling`:

* ``twom-panel`` (i, j, step): panels along k but the last;
* ``twom-product`` (i, j): the last panel and the epilogue, a tile of C;
* ``twom-update`` (i, j): a tile of an update's result: an alias of a computed one, its
  mirror image, or zeros, made only if somebody asks for it.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from dask.base import tokenize

from ..typing import Cell, Side
from .blocks import check_block, check_tile
from .cells import Product, as_operand, compute_cell, mirror_tile, multiply_cell
from .grid import Grid
from .scaling import Key, Operands, ScalingTasks, running
from .spec import SIDES, Spec, load_engine
from .task_spec import Alias, List, Task, TaskRef

PRODUCT = "twom-product"
PANEL = "twom-panel"
UPDATE = "twom-update"


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
        self._stages = {stage: f"{stage}-{token}" for stage in (PRODUCT, PANEL)}
        self.operands, self.grid, self.spec = operands, grid, spec
        self._scaling = ScalingTasks(token, operands, grid, spec)
        # What the tasks of products are told: as soon as its moduli are settled.
        self._settled = self._scaling.settle() if spec.grade else spec
        self.tasks: dict[Key, Task] = self._scaling.tasks
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
            call = (run_panel, self._settled, self._extent(cell, panel), before)
            own = (self._stages[PANEL], i, j, step)
            self.tasks[own] = Task(own, *call, *self._products(cell, panel))
            before = TaskRef(own)
        call = (run_cell, self._settled, self._extent(cell, last), before)
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
        given = not (self.spec.native or self.spec.exact)
        return tiles, self._exponents(side, index) if given else None

    def _tiles(self, side: Side, index: int, steps: range) -> List:
        """List a row of tiles; one object for all the tasks that take it."""
        side = "left" if self.spec.twins else side
        key = (side, index, steps)
        if key not in self._lists:
            refs = self._scaling.row(side, index)[steps.start : steps.stop]
            self._lists[key] = List(*refs)
        return self._lists[key]

    def _exponents(self, side: Side, index: int) -> TaskRef:
        """Exponents of one row of tiles; those of A serve both sides of A A^H."""
        side = "left" if self.spec.twins else side
        if (side, index) not in self._scaled:
            exponents = self._scaling.exponents(side, index, self._settled)
            self._scaled[side, index] = exponents
        return self._scaled[side, index]


def _square(count: int) -> Iterable[Cell]:
    return ((i, j) for i in range(count) for j in range(count))


# --- what the tasks call ----------------------------------------------------------


class Extent(NamedTuple):
    """Sizes of a cell along m, n and a panel, and whether it is on the diagonal."""

    rows: int
    columns: int
    steps: tuple[int, ...]
    diagonal: bool


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
            as_operand(
                _check_tiles(tiles, rows, side, spec, extent), exponents, side, spec
            )
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
        return family.zeros(spec.tile_shape(*shape), spec.dtype)
