"""The tasks that look at rows of op(A) and columns of op(B) before they are multiplied.

Keys are ``twom-<stage>-<token>``:

* ``twom-largest``, ``twom-sums``, ``twom-exponents`` with (side, i, step): scaling; of
  a row of tiles (side, i, "all"), of everything ("all",);
* ``twom-sample`` with (side, i, step) and (side,): the rows that are looked at; (step,)
  or ("cell", i, j): what they give; ``twom-spec``: the moduli that the data take, see
  `estimate`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import getitem
from typing import Any, NamedTuple

from ..errors import portable_errors
from ..kernels.family import convert
from ..typing import Array, Side
from . import tasks
from .blocks import check_tile
from .grid import Grid
from .look import estimate
from .spec import SIDES, Spec, is_straight, load_engine
from .task_spec import List, Task, TaskRef

_STAGES = ("largest", "columns", "shifts", "sums", "sample", "spec", "exponents")
SCALING_STAGES = tuple(f"twom-{stage}" for stage in _STAGES)
# Tiles of an equilibrated operand; see `scaled`.
SCALED = "twom-scaled"

Key = tuple[Any, ...]
# Of each side and row of tiles.
AllMeasured = Sequence[Sequence[estimate.Measured]]
# Of a tile: its reference, side, and (rows, k).
Tile = tuple[TaskRef, Side, tuple[int, int]]


@dataclass(frozen=True)
class Operands:
    """Names of the arrays whose chunks the tasks take; b is a for herk and syrk."""

    a: str
    b: str
    c: str | None = None


class ScalingTasks:
    """Tasks by key, made when somebody asks for what they find."""

    def __init__(
        self,
        token: str,
        operands: Operands,
        grid: Grid,
        spec: Spec,
        measured: AllMeasured | None = None,
    ) -> None:
        self.tasks: dict[Key, Task] = {}
        self.operands, self.grid, self.spec = operands, grid, spec
        # One string a stage: a string remembers its hash, and keys are hashed often.
        self._stages = {stage: f"{stage}-{token}" for stage in SCALING_STAGES}
        self._rows: dict[tuple[Side, int], list[TaskRef]] = {}
        self._measured: dict[tuple[Side, int], tuple[TaskRef, TaskRef]] = {}
        for side, rows in zip(SIDES, measured or (), strict=False):
            for index, found in enumerate(rows):
                where = side, index
                # Lists of one: each array goes to the scheduler by itself.
                self._measured[where] = (
                    TaskRef(self.add("largest", where, getitem, [found.largest], 0)),
                    TaskRef(self.add("sums", where, getitem, [found.sums], 0)),
                )

    def row(self, side: Side, index: int) -> list[TaskRef]:
        """List the input chunks that are row `index` of op(A) or op(B)^T."""
        row = side, index
        if row not in self._rows:
            name = self.operands.a if side == "left" else self.operands.b
            straight = is_straight(side, self.spec.op(side))
            self._rows[row] = [
                TaskRef((name, index, s) if straight else (name, s, index))
                for s in range(self.grid.kt)
            ]
        return self._rows[row]

    def tiles(self, side: Side, index: int) -> list[Tile]:
        """List what a task is told of each tile of a row."""
        rows = self.rows(side)[index]
        return [
            (ref, side, (rows, k))
            for ref, k in zip(self.row(side, index), self.grid.k, strict=True)
        ]

    def rows(self, side: Side) -> Sequence[int]:
        """Sizes of the rows of tiles."""
        return self.grid.m if side == "left" else self.grid.n

    def add(self, stage: str, index: tuple[Any, ...], *call: Any) -> Key:
        """Add a task."""
        key = (self._stages[f"twom-{stage}"], *index)
        self.tasks[key] = Task(key, *call)
        return key

    def scan(
        self,
        stage: str,
        function: Callable[..., Array],
        where: tuple[Any, ...],
        tile: Tile,
        *more: Any,
    ) -> Key:
        """Add a task that looks at one tile."""
        return self.add(stage, where, run_scaling, function, self.spec, *tile, *more)

    def combine(
        self, stage: str, where: tuple[Any, ...], keys: Sequence[Key]
    ) -> TaskRef:
        """Add a task that takes the largest of what tiles have, or the sum."""
        if len(keys) == 1:
            return TaskRef(keys[0])
        both = tasks.add_sums if stage == "sums" else tasks.combine_largest
        call = both, List(*map(TaskRef, keys))
        return TaskRef(self.add(stage, (*where, "all"), *call))

    def largest(self, side: Side, index: int) -> TaskRef:
        """Largest exponents of one row of tiles."""
        found = [
            self.scan("largest", tasks.largest_exponents, (side, index, step), tile)
            for step, tile in enumerate(self.tiles(side, index))
        ]
        return self.combine("largest", (side, index), found)

    def exponents(self, side: Side, index: int, spec: Spec | TaskRef) -> TaskRef:
        """Scaling exponents of one row of tiles; `spec`: with its moduli settled."""
        tiles, where = self.tiles(side, index), (side, index)
        if len(tiles) == 1 and not self.spec.grade:
            return TaskRef(self.scan("exponents", tasks.scale_in_one, where, tiles[0]))
        measured = self._measure(side, index)
        return TaskRef(self.add("exponents", where, run_choice, spec, *measured))

    def _measure(self, side: Side, index: int) -> tuple[TaskRef, TaskRef]:
        """Two passes: the largest exponent over all of k, then exact square sums."""
        where = side, index
        if where not in self._measured:
            largest = self.largest(side, index)
            sums = [
                self.scan("sums", tasks.square_sums, (*where, step), tile, largest)
                for step, tile in enumerate(self.tiles(side, index))
            ]
            self._measured[where] = largest, self.combine("sums", where, sums)
        return self._measured[where]

    def sides(self) -> Sequence[Side]:
        """List the sides that differ."""
        return SIDES[:1] if self.spec.twins else SIDES

    def measure_all(self) -> TaskRef:
        """Measure all rows of both sides."""
        found = (List(*self._measure_side(side)) for side in self.sides())
        return TaskRef(self.add("sums", ("all",), run_measured, *found))

    def _measure_side(self, side: Side) -> list[List]:
        return [List(*self._measure(side, i)) for i in range(len(self.rows(side)))]

    def settle(self) -> TaskRef:
        """Settle the moduli: from a sample of rows and columns, or from all."""
        sides = [self._sample(side) for side in self.sides()]
        left, right = sides[0], sides[-1]
        found = []
        if self.spec.grade == "native":
            for step in range(self.grid.kt):
                given = self.spec, left.column(step), right.column(step)
                found.append(TaskRef(self.add("sample", (step,), run_bounds, *given)))
            whole = self.spec, List(*found), left.whole, right.whole
            return TaskRef(self.add("spec", (0,), run_settle, *whole))
        routine = self.spec.routine
        for cell in routine.cells(self.grid.mt, self.grid.nt):
            for i, j in routine.pairs(*cell):
                rows = (i, left.row(i), left.whole), (j, right.row(j), right.whole)
                call = self.spec, *(List(*x) for x in rows)
                where = "cell", i, j
                found.append(TaskRef(self.add("sample", where, run_ratio, *call)))
        return TaskRef(self.add("spec", (0,), run_settle_all, self.spec, List(*found)))

    def _sample(self, side: Side) -> "_Sample":
        """Take magnitudes of the rows that are looked at, tile by tile."""
        measured = [self._measure(side, i) for i in range(len(self.rows(side)))]
        every = List(*(List(*pair) for pair in measured))
        chosen = TaskRef(self.add("sample", (side,), run_rows, self.spec, every))
        tiles = []
        for index, (largest, _) in enumerate(measured):
            more = largest, chosen, index
            tiles.append(
                [
                    TaskRef(self.scan("sample", run_sample, (side, index, s), x, *more))
                    for s, x in enumerate(self.tiles(side, index))
                ]
            )
        return _Sample(tiles, List(chosen, every))


class _Sample(NamedTuple):
    """Magnitudes of the rows of one side, and what tells which rows these are."""

    tiles: list[list[TaskRef]]
    whole: List

    def row(self, index: int) -> List:
        return List(*self.tiles[index])

    def column(self, step: int) -> List:
        return List(*(row[step] for row in self.tiles))


# --- what the tasks call ----------------------------------------------------------


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
    *more: Any,
) -> Any:
    """Call a scaling task of one tile."""
    with running(spec):
        block = check_tile(block, shape, side, spec)
        return function(block, *more, side, spec)


def run_choice(spec: Spec, largest: Any, sums: Any) -> Any:
    """Call `choose_exponents`, unless the product became a native one."""
    with running(spec):
        return None if spec.native else tasks.choose_exponents(largest, sums, spec)


def run_measured(*sides: list[list[Any]]) -> AllMeasured:
    """Tell by sides and rows, wherever the matrices are, on the host."""
    return [
        [estimate.Measured(*(convert(t, "numpy") for t in x)) for x in rows]
        for rows in sides
    ]


def run_rows(spec: Spec, measured: list[list[Any]]) -> Any:
    """Call `choose_rows`."""
    with portable_errors():
        return estimate.choose_rows([estimate.Measured(*x) for x in measured], spec)


def run_sample(
    block: Any, largest: Any, rows: list[Any], index: int, side: Side, spec: Spec
) -> Any:
    """Call `sample_rows` for the rows in one tile."""
    return estimate.sample_rows(block, largest, rows[index], side, spec)


def run_bounds(spec: Spec, left: list[Any], right: list[Any]) -> Any:
    """Call `bound_tiles` for one tile along k, from the samples of all rows."""
    with running(spec):
        return estimate.bound_tiles(left, right, spec)


def run_settle(spec: Spec, bounds: list[Any], left: Any, right: Any) -> Any:
    """Call `choose_moduli`, from the bounds of all tiles along k."""
    with running(spec):
        squares = estimate.sample_sums(*left), estimate.sample_sums(*right)
        ratio = estimate.square_ratio(estimate.add_bounds(bounds), squares, spec.k)
        return estimate.choose_moduli(spec, ratio)


def run_ratio(spec: Spec, left: list[Any], right: list[Any]) -> float:
    """Call `cell_ratio`; of each side index and tiles of a row, and what tells all."""
    with running(spec):
        squares = [
            estimate.sample_sums([chosen[index]], [measured[index]])
            for index, _, (chosen, measured) in (left, right)
        ]
        return estimate.cell_ratio(left[1], right[1], squares, spec)


def run_settle_all(spec: Spec, ratios: list[float]) -> Any:
    """Call `choose_moduli`, from the ratios of all cells."""
    with running(spec):
        return estimate.choose_moduli(spec, max(ratios, default=0.0))
