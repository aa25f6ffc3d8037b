"""The task graph of a product: the only maker of task keys.

Keys are ``twom-<stage>-<token>`` so that dashboards group them by stage:

* ``twom-largest``, ``twom-sums``, ``twom-exponents`` with (side, i, step): scaling;
* ``twom-bounds``: upper bounds of C tiles, for accurate scaling only;
* ``twom-panel`` (i, j, step): panels along k but the last;
* ``twom-product`` (i, j): the last panel and the decode, a tile of C;
* ``twom-update`` (i, j): a tile of a rank-k update; see `tiles.rank_graph`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dask.base import tokenize

from ..typing import Side
from . import tasks
from .grid import Grid
from .spec import ProductSpec, load_engine
from .task_spec import List, Task, TaskRef

PRODUCT = "twom-product"
PANEL = "twom-panel"
SCALING_STAGES = ("twom-largest", "twom-sums", "twom-exponents", "twom-bounds")

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Operands:
    """Names of the arrays whose chunks the tasks take."""

    a: str
    b: str
    c: str | None = None


def product_name(*parts: Any) -> str:
    """Name the result deterministically from everything that defines it."""
    return f"{PRODUCT}-{tokenize(*parts)}"


def _token(name: str) -> str:
    return name.removeprefix(f"{PRODUCT}-")


def run_in_task(function: Callable[..., Any], spec: ProductSpec, *args: Any) -> Any:
    """Call a block task inside the engine's task scope, the spec as last argument."""
    with load_engine(spec).task():
        return function(*args, spec)


def run_product(spec: ProductSpec, *args: Any) -> Any:
    """Call `product_tile`: (a_tiles, b_tiles, rows, columns, before, c)."""
    a_tiles, b_tiles, rows, columns, before, c = args
    with load_engine(spec).task():
        return tasks.product_tile(a_tiles, b_tiles, rows, columns, spec, before, c)


def run_panel(spec: ProductSpec, *args: Any) -> Any:
    """Call `multiply_panel`: (a_tiles, b_tiles, rows, columns, before)."""
    a_tiles, b_tiles, rows, columns, before = args
    with load_engine(spec).task():
        return tasks.multiply_panel(a_tiles, b_tiles, rows, columns, spec, before)


class TileTask(Task):
    """A task that keeps its key: fused into what follows, it would lose its place."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        """Tell dask's fusion of linear chains to leave this task alone."""
        return True


class ProductLayer:
    """Build the tasks of one product.

    Parameters
    ----------
    name : str
        Of the result, from `product_name`.
    operands : Operands
    grid : Grid
    spec : ProductSpec
    """

    def __init__(
        self, name: str, operands: Operands, grid: Grid, spec: ProductSpec
    ) -> None:
        self.name = name
        self.token = _token(name)
        self.operands = operands
        self.grid = grid
        self.spec = spec
        self.tasks: dict[Key, Task] = {}
        self._lists: dict[Any, List] = {}

    def build(self) -> dict[Key, Task]:
        """Return every task of the product by key."""
        if not self.spec.native:
            for side in ("left", "right"):
                self._scale(side)
            if self.spec.scaling == "accurate":
                self._bound()
        for i in range(self.grid.mt):
            for j in range(self.grid.nt):
                self._multiply(i, j)
        return self.tasks

    def tile_key(self, side: Side, index: int, step: int) -> Key:
        """Key of the input chunk that is tile (index, step) of op(A) or op(B)^T."""
        name = self.operands.a if side == "left" else self.operands.b
        straight = (self.spec.op(side) == "N") == (side == "left")
        return (name, index, step) if straight else (name, step, index)

    def _count(self, side: Side) -> int:
        return self.grid.mt if side == "left" else self.grid.nt

    def _add(self, stage: str, index: tuple[Any, ...], *call: Any) -> Key:
        key = (f"{stage}-{self.token}", *index)
        function, *args = call
        self.tasks[key] = Task(key, function, *args)
        return key

    def _tiles(self, side: Side, index: int, steps: range) -> List:
        """List a row of tiles; one object for all the tasks that take it."""
        key = (side, index, steps)
        if key not in self._lists:
            refs = (TaskRef(self.tile_key(side, index, s)) for s in steps)
            self._lists[key] = List(*refs)
        return self._lists[key]

    def _scale(self, side: Side) -> None:
        """Two passes: the largest exponent over all of k, then exact square sums."""
        spec, steps = self.spec, range(self.grid.kt)
        for index in range(self._count(side)):
            where = (side, index)
            refs = [TaskRef(self.tile_key(side, index, s)) for s in steps]
            if len(refs) == 1 and spec.scaling == "norm":
                call = (run_in_task, tasks.scale_in_one, spec, refs[0], side)
                self._add("twom-exponents", where, *call)
                continue
            tile_largest = [
                self._add(
                    "twom-largest",
                    (*where, s),
                    *(run_in_task, tasks.largest_exponents, spec, ref, side),
                )
                for s, ref in enumerate(refs)
            ]
            largest = self._add(
                "twom-largest",
                (*where, "all"),
                tasks.combine_largest,
                List(*map(TaskRef, tile_largest)),
            )
            sums = [
                self._add(
                    "twom-sums",
                    (*where, s),
                    *(run_in_task, tasks.square_sums, spec),
                    *(ref, TaskRef(largest), side),
                )
                for s, ref in enumerate(refs)
            ]
            self._add(
                "twom-exponents",
                where,
                *(run_in_task, tasks.choose_exponents, spec),
                *(TaskRef(largest), List(*map(TaskRef, sums))),
            )

    def _bound(self) -> None:
        """Bounds of all C tiles, then exponents from their row and column maxima."""
        for i in range(self.grid.mt):
            for j in range(self.grid.nt):
                self._bound_cell((i, j), "right")
        for i in range(self.grid.mt):
            cells = [(i, j) for j in range(self.grid.nt)]
            self._choose_accurate("left", i, [(cell, 0) for cell in cells])
        for j in range(self.grid.nt):
            cells = [(i, j) for i in range(self.grid.mt)]
            self._choose_accurate("right", j, [(cell, 1) for cell in cells])

    def _bound_cell(self, cell: tuple[int, int], scaled: Side) -> None:
        """Bound a C tile; `scaled`: the side whose scaling its columns have."""
        (i, j), steps = cell, range(self.grid.kt)
        largest = List(self._ref("left", i, True), self._ref(scaled, j, True))
        self._add(
            "twom-bounds",
            cell,
            *(run_in_task, tasks.bound_maxima, self.spec),
            *(self._tiles("left", i, steps), self._tiles("right", j, steps)),
            largest,
        )

    def _choose_accurate(
        self, side: Side, index: int, bounds: list[tuple[tuple[int, int], int]]
    ) -> None:
        """Choose exponents from the row (0) or column (1) maxima of bounded cells."""
        refs = [TaskRef((f"twom-bounds-{self.token}", *cell)) for cell, _ in bounds]
        self._add(
            "twom-exponents",
            (side, index, "accurate"),
            *(run_accurate, self.spec, self._ref(side, index, False)),
            *(self._ref(side, index, True), List(*refs)),
            tuple(axis for _, axis in bounds),
        )

    def _ref(self, side: Side, index: int, largest: bool) -> TaskRef:
        """Largest exponents, or norm exponents, of one row or column of tiles."""
        if largest:
            return TaskRef((f"twom-largest-{self.token}", side, index, "all"))
        return TaskRef((f"twom-exponents-{self.token}", side, index))

    def _exponents(self, side: Side, index: int) -> TaskRef | None:
        if self.spec.native:
            return None
        key = (f"twom-exponents-{self.token}", side, index)
        accurate = self.spec.scaling == "accurate"
        return TaskRef((*key, "accurate") if accurate else key)

    def _multiply(self, i: int, j: int) -> None:
        """Chain the panels of one C tile; the last one decodes."""
        panels = self.grid.panels
        before: TaskRef | None = None
        for step, (lo, hi) in enumerate(panels):
            inputs = (
                self.spec,
                self._tiles("left", i, range(lo, hi)),
                self._tiles("right", j, range(lo, hi)),
                self._exponents("left", i),
                self._exponents("right", j),
                before,
            )
            if step < len(panels) - 1:
                before = TaskRef(self._add(PANEL, (i, j, step), run_panel, *inputs))
                continue
            c = self.operands.c
            c_tile = None if c is None else TaskRef((c, i, j))
            key = (self.name, i, j)
            self.tasks[key] = TileTask(key, run_product, *inputs, c_tile)


def run_accurate(
    spec: ProductSpec, norm: Any, largest: Any, bounds: list[Any], axes: tuple[int, ...]
) -> Any:
    """Call `accurate_exponents` with the row (0) or column (1) maxima of each cell."""
    maxima = [bound[axis] for bound, axis in zip(bounds, axes, strict=True)]
    return tasks.accurate_exponents(norm, largest, maxima, spec)
