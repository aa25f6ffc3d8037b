"""The operands of a product of dask arrays, equilibrated: tiles times powers of two.

Keys are ``twom-<stage>-<token>``, as in `graph`:

* ``twom-largest``, ``twom-columns`` with (side, i, step): exponents of rows, columns;
* ``twom-columns`` (side, step), ``twom-shifts`` (step,): of all of them;
* ``twom-scaled`` (i, j): a tile of A or B, or what it was where nothing is gained.
"""

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

from dask.base import tokenize

from ..typing import Array, Side
from . import tasks
from .equilibration import choose_of_tiles, column_exponents, scale_tile
from .graph import SCALED, SIDES, Key, Operands, run_scaling, running
from .grid import Grid
from .spec import Spec, is_straight
from .task_spec import List, Task, TaskRef

# Of each tile along k; None where nothing is gained.
Shifts = Sequence[Array | None]


def scaled_name(side: Side, spec: Spec, *parts: Any) -> str:
    """Name a scaled operand deterministically from everything that defines it."""
    return f"{SCALED}-{tokenize(side, spec, *parts)}"


def build_scaled(
    name: str,
    side: Side,
    operands: Operands,
    grid: Grid,
    spec: Spec,
    shifts: Shifts | None = None,
) -> dict[Key, Task]:
    """Return the tasks of an operand whose name is from `scaled_name`.

    `shifts`: of each tile along k, where they are known.
    """
    layer = _Layer(operands, grid, spec)
    layer.add_shifts(shifts)
    for i, step, ref, shape in layer.tiles(side):
        place = (i, step) if is_straight(side, spec.op(side)) else (step, i)
        given = spec, ref, side, shape, TaskRef(layer.shifts(step))
        call = (run_scaling, scale_tile, *given)
        layer.tasks[(name, *place)] = Task((name, *place), *call)
    return layer.tasks


def build_shifts(
    operands: Operands, grid: Grid, spec: Spec
) -> tuple[dict[Key, Task], Key]:
    """Return the tasks that choose the shifts, and the key of what they choose."""
    layer = _Layer(operands, grid, spec)
    return layer.tasks, layer.choose_shifts()


class _Layer:
    def __init__(self, operands: Operands, grid: Grid, spec: Spec) -> None:
        self.operands, self.grid, self.spec = operands, grid, spec
        self.tasks: dict[Key, Task] = {}
        self._token = tokenize(operands, grid, spec)

    def tiles(self, side: Side) -> Any:
        """Yield row, step, reference and (rows, k) of the tiles of a side."""
        left = side == "left"
        name = self.operands.a if left else self.operands.b
        straight = is_straight(side, self.spec.op(side))
        for i, rows in enumerate(self.grid.m if left else self.grid.n):
            for step, k in enumerate(self.grid.k):
                ref = TaskRef((name, i, step) if straight else (name, step, i))
                yield i, step, ref, (rows, k)

    def shifts(self, step: int) -> Key:
        """Return the key of the shifts of one tile along k."""
        return (f"twom-shifts-{self._token}", step)

    def add_shifts(self, known: Shifts | None) -> None:
        """Give the shifts of each tile along k a key."""
        chosen = TaskRef(self.choose_shifts()) if known is None else None
        for step in range(self.grid.kt):
            key = self.shifts(step)
            if known is None:
                self.tasks[key] = Task(key, getitem, chosen, step)
            else:
                # A list of one: each goes to the scheduler by itself.
                self.tasks[key] = Task(key, getitem, [known[step]], 0)

    def choose_shifts(self) -> Key:
        """Look at every tile twice: which rows are finite, and then the columns."""
        of_steps = [self._combine_columns(side) for side in SIDES]
        call = (run_choice, self.spec, *(List(*map(TaskRef, x)) for x in of_steps))
        return self._add("shifts", ("all",), *call)

    def _combine_columns(self, side: Side) -> list[Key]:
        rows: dict[int, list[Key]] = {}
        columns: dict[int, list[Key]] = {}
        for i, step, *tile in self.tiles(side):
            key = self._scan(tasks.largest_exponents, side, (i, step), *tile)
            rows.setdefault(i, []).append(key)
        whole = {i: self._combine("largest", (side, i), x) for i, x in rows.items()}
        for i, step, *tile in self.tiles(side):
            more = TaskRef(whole[i])
            key = self._scan(column_exponents, side, (i, step), *tile, more)
            columns.setdefault(step, []).append(key)
        return [
            self._combine("columns", (side, s), columns[s]) for s in range(self.grid.kt)
        ]

    def _scan(
        self,
        function: Callable[..., Array],
        side: Side,
        where: tuple[int, int],
        ref: TaskRef,
        shape: tuple[int, int],
        *more: TaskRef,
    ) -> Key:
        stage = "columns" if more else "largest"
        call = (run_scaling, function, self.spec, ref, side, shape, *more)
        return self._add(stage, (side, *where), *call)

    def _combine(self, stage: str, where: tuple[Any, ...], keys: Sequence[Key]) -> Key:
        refs = List(*map(TaskRef, keys))
        return self._add(stage, where, tasks.combine_largest, refs)

    def _add(self, stage: str, index: tuple[Any, ...], *call: Any) -> Key:
        key = (f"twom-{stage}-{self._token}", *index)
        self.tasks[key] = Task(key, *call)
        return key


def run_choice(spec: Spec, left: list[Array], right: list[Array]) -> Any:
    """Call `choose_of_tiles`."""
    with running(spec):
        return choose_of_tiles(left, right, spec)
