"""The operands of a product of dask arrays, equilibrated: tiles times powers of two.

Keys are ``twom-<stage>-<token>``, as in `graph`:

* ``twom-largest``, ``twom-columns`` with (side, i, step): exponents of rows, columns;
* ``twom-columns`` (side, step), ``twom-shifts`` (step,): of all of them;
* ``twom-scaled`` (i, j): a tile of A or B, or what it was where nothing is gained.
"""

from collections.abc import Sequence
from operator import getitem
from typing import Any

from dask.base import tokenize

from ..typing import Array, Side
from .grid import Grid
from .look.equilibration import choose_of_tiles, column_exponents, scale_tile
from .scaling import SCALED, Key, Operands, ScalingTasks, run_scaling, running
from .spec import SIDES, Spec, is_straight
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
    of_steps = layer.list_shifts(shifts)
    for i in range(len(layer.rows(side))):
        for step, tile in enumerate(layer.tiles(side, i)):
            place = (i, step) if is_straight(side, spec.op(side)) else (step, i)
            call = (run_scaling, scale_tile, spec, *tile, of_steps[step])
            layer.tasks[(name, *place)] = Task((name, *place), *call)
    return layer.tasks


def build_survey(
    operands: Operands, grid: Grid, spec: Spec
) -> tuple[dict[Key, Task], Key]:
    """Return the tasks that look at whole matrices, and the key of what they find.

    The shifts of each tile along k, and the measures of all rows, each where the spec
    asks for it, or None.
    """
    layer = _Layer(operands, grid, spec)
    shifts = TaskRef(layer.choose_shifts()) if spec.equilibrate else None
    measured = layer.measure_all() if spec.grade else None
    return layer.tasks, layer.add("shifts", ("survey",), run_pair, shifts, measured)


class _Layer(ScalingTasks):
    def __init__(self, operands: Operands, grid: Grid, spec: Spec) -> None:
        super().__init__(tokenize(operands, grid, spec), operands, grid, spec)

    def list_shifts(self, known: Shifts | None) -> list[TaskRef]:
        """Give the shifts of each tile along k a key."""
        if known is None:
            chosen = TaskRef(self.choose_shifts())
            found = [(chosen, step) for step in range(self.grid.kt)]
        else:
            # Lists of one: each goes to the scheduler by itself.
            found = [([shifts], 0) for shifts in known]
        return [
            TaskRef(self.add("shifts", (step,), getitem, *call))
            for step, call in enumerate(found)
        ]

    def choose_shifts(self) -> Key:
        """Look at every tile twice: which rows are finite, and then the columns."""
        of_steps = [List(*self._columns(side)) for side in SIDES]
        return self.add("shifts", ("all",), run_choice, self.spec, *of_steps)

    def _columns(self, side: Side) -> list[TaskRef]:
        """Exponents of the columns of each step along k."""
        found: list[list[Key]] = [[] for _ in self.grid.k]
        for i in range(len(self.rows(side))):
            largest = self.largest(side, i)
            for step, tile in enumerate(self.tiles(side, i)):
                where = (side, i, step)
                key = self.scan("columns", column_exponents, where, tile, largest)
                found[step].append(key)
        return [self.combine("columns", (side, s), x) for s, x in enumerate(found)]


def run_pair(*found: Any) -> Any:
    """Return both."""
    return found


def run_choice(spec: Spec, left: list[Array], right: list[Array]) -> Any:
    """Call `choose_of_tiles`."""
    with running(spec):
        return choose_of_tiles(left, right, spec)
