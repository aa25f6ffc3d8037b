"""The task graph of rank-k and rank-2k updates: product tasks of one triangle.

The product tasks are those of `ProductLayer` and keep its keys, so that placement and
dashboards know them. The result has keys of its own: an alias for each computed tile,
and a cheap task for each mirrored or empty one, made only if somebody asks for it.
"""

from typing import Any

from ..typing import Side
from .graph import PANEL, PRODUCT, Key, Operands, ProductLayer, TileTask, product_name
from .grid import Grid
from .rank_k import (
    Operand,
    RankSpec,
    computed_cells,
    finish_cell,
    mirror_tile,
    multiply_cell,
    scale_cell,
    wanted_triangle,
)
from .spec import ProductSpec, load_engine, load_namespace
from .task_spec import Alias, Task, TaskRef

UPDATE = "twom-update"


AnySpec = ProductSpec | RankSpec


def result_name(spec: AnySpec, *parts: Any) -> str:
    """Name the result deterministically from everything that defines it."""
    name = product_name(spec, *parts)
    return name.replace(PRODUCT, UPDATE, 1) if isinstance(spec, RankSpec) else name


def build_layer(
    name: str, operands: Operands, grid: Grid, spec: AnySpec
) -> dict[Key, Task]:
    """Return the tasks of a product, or of an update, by key."""
    if isinstance(spec, RankSpec):
        layer = ScaledLayer if spec.empty else UpdateLayer
        return layer(name, operands, grid, spec).build()
    return ProductLayer(name, operands, grid, spec).build()


def run_update(spec: RankSpec, *args: Any) -> Any:
    """Multiply one panel of a tile, and finish the tile if it is the last one.

    (cell, last, x_i, x_j, z_i, z_j, e_i, e_j, f_i, f_j, before, c): tiles of op(A) and
    op(B), their exponents.
    """
    cell, last, x_i, x_j, z_i, z_j, e_i, e_j, f_i, f_j, before, c = args
    x = (Operand(x_i, e_i), Operand(x_j, e_j))
    z = None if z_i is None else (Operand(z_i, f_i), Operand(z_j, f_j))
    with load_engine(spec.product).task():
        alone = before is None and last
        triangle = wanted_triangle(cell, spec) if alone else "full"
        accumulators = multiply_cell(x, z, cell, spec, before, triangle)
        if not last:
            return accumulators
        return finish_cell(accumulators, x, z, cell, spec, c)


def run_mirror(tile: Any, spec: RankSpec) -> Any:
    """Mirror a tile of the computed triangle."""
    with load_engine(spec.product).task():
        return mirror_tile(tile, spec)


def run_scale(spec: RankSpec, cell: tuple[int, int], c: Any) -> Any:
    """Call `scale_cell`."""
    with load_engine(spec.product).task():
        return scale_cell(c, cell, spec)


def empty_tile(shape: tuple[int, int], spec: ProductSpec) -> Any:
    """Return a tile of the triangle that was not asked for."""
    with load_engine(spec).task():
        return load_namespace(spec).zeros(shape, spec.dtype)


class UpdateLayer(ProductLayer):
    """Build the tasks of one update.

    Parameters
    ----------
    name : str
        Of the result: ``twom-update-<token>``.
    operands : Operands
        b is a for rank-k updates.
    grid : Grid
        Square: m and n alike.
    spec : RankSpec
    """

    def __init__(
        self, name: str, operands: Operands, grid: Grid, spec: RankSpec
    ) -> None:
        product_name = f"{PRODUCT}-{name.removeprefix(UPDATE + '-')}"
        super().__init__(product_name, operands, grid, spec.product)
        self.result = name
        self.update = spec

    def build(self) -> dict[Key, Task]:
        """Return every task of the update by key."""
        if not self.spec.native:
            self._scale("left")
            if self.update.two:
                self._scale("right")
            if self.spec.scaling == "accurate":
                self._bound()
        computed = set(computed_cells(self.grid.mt, self.update.uplo))
        for i in range(self.grid.mt):
            for j in range(self.grid.nt):
                key = (self.result, i, j)
                if (i, j) in computed:
                    self._multiply(i, j)
                    self.tasks[key] = Alias(key, (self.name, i, j))
                elif self.update.uplo == "full":
                    tile = TaskRef((self.name, j, i))
                    self.tasks[key] = Task(key, run_mirror, tile, self.update)
                else:
                    shape = (self.grid.m[i], self.grid.n[j])
                    self.tasks[key] = Task(key, empty_tile, shape, self.spec)
        return self.tasks

    def _bound(self) -> None:
        """Bound one triangle: of A with itself, the bounds are symmetric."""
        if self.update.two:
            super()._bound()
            return
        cells = computed_cells(self.grid.mt, self.update.uplo)
        for cell in cells:
            self._bound_cell(cell, "left")
        for index in range(self.grid.mt):
            own = [(cell, cell.index(index)) for cell in cells if index in cell]
            self._choose_accurate("left", index, own)

    def _multiply(self, i: int, j: int) -> None:
        """Chain the panels of one tile of the triangle."""
        panels = self.grid.panels
        before: TaskRef | None = None
        two = self.update.two
        for step, (lo, hi) in enumerate(panels):
            last = step == len(panels) - 1
            steps = range(lo, hi)
            c = self.operands.c
            inputs = (
                self.update,
                (i, j),
                last,
                self._tiles("left", i, steps),
                self._tiles("left", j, steps),
                self._tiles("right", i, steps) if two else None,
                self._tiles("right", j, steps) if two else None,
                self._exponents("left", i),
                self._exponents("left", j),
                self._exponents("right", i) if two else None,
                self._exponents("right", j) if two else None,
                before,
                TaskRef((c, i, j)) if last and c is not None else None,
            )
            if last:
                key = (self.name, i, j)
                self.tasks[key] = TileTask(key, run_update, *inputs)
            else:
                before = TaskRef(self._add(PANEL, (i, j, step), run_update, *inputs))


class ScaledLayer(UpdateLayer):
    """Build the tasks of an update whose product is empty: beta C of one triangle."""

    def _scale(self, side: Side) -> None:
        """Nothing is multiplied."""

    def _bound(self) -> None:
        """Nothing is multiplied."""

    def _multiply(self, i: int, j: int) -> None:
        """Scale one tile of the triangle."""
        key = (self.name, i, j)
        c_tile = TaskRef((self.operands.c, i, j))
        self.tasks[key] = TileTask(key, run_scale, self.update, (i, j), c_tile)
