"""The program as a dask graph: each stage a task.

Keys are ``twom-<stage>-<token>`` with

* ``twom-largest``, ``twom-sums`` (side, i, strip): rows of a strip of tiles; keys that
  end in "shifted" repeat these if columns are shifted; (side, i, "all"): sums of a row
  of tiles; i is the first of several rows that are analysed together;
* ``twom-columns`` (side, strip), ``twom-shifts``: shifts along k;
* ``twom-spec`` ("sums",) and (0,), ``twom-octaves`` (side, i, strip), ``twom-pairs``
  (n, layer), or of a sweep (i, j, layer): the moduli;
* ``twom-exponents`` (side, i): the scaling;
* ``twom-diag`` (step,): entries of the diagonal between op(A) and op(B);
* ``twom-read``: a stage and its key: a first reading of tiles, or of fingerprints only;
* ``twom-panel`` (i, j, layer, step): panels along k, by their first tile;
  ``twom-sweep``: of all cells of a sweep, by its first; ``twom-part``, with the layer
  that they go to as well: those sums of a sweep that are decoded there;
* ``twom-reduce`` (i, j, layer, step, count): sums of so many parts of k, from there on;
* ``twom-product`` (i, j): the last panel of all of k, or the sums of all parts, and the
  epilogue: a tile of C, maybe out of those of its sweep;
* ``twom-update`` (i, j): a tile of an update: computed, its mirror image, or zeros.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import getitem
from typing import Any, NamedTuple

from dask.base import tokenize

from ...typing import Array, Cell, Side
from .. import program
from ..grid import Grid
from ..interpreter import Analyser, Findings, Line, lines, pick
from ..routine import PairBlock
from ..rows import Stream
from ..spec import SIDES, Spec, is_straight
from .calls import (
    call_each,
    receive,
    receive_added,
    receive_entries,
    run,
    scale_row,
    stream,
)
from .task_spec import Alias, List, Task, TaskRef

PRODUCT = "twom-product"
PANEL = "twom-panel"
SWEEP = "twom-sweep"
PART = "twom-part"
REDUCE = "twom-reduce"
UPDATE = "twom-update"
PRODUCT_STAGES = (PRODUCT, PANEL, SWEEP, PART, REDUCE)
_LOOK = ("largest", "columns", "shifts", "sums", "octaves", "pairs", "spec")
SCALING_STAGES = tuple(f"twom-{stage}" for stage in (*_LOOK, "exponents", "diag"))

Key = tuple[Any, ...]


def result_name(spec: Spec, *parts: Any) -> str:
    """Name the result deterministically from all that its bits and tasks depend on.

    The bytes of encoded tiles that other workers keep change neither.
    """
    stage = UPDATE if spec.routine.triangle else PRODUCT
    return f"{stage}-{tokenize(replace(spec, cache_bytes=0), *parts)}"


class TileTask(Task):
    """A task that dask must not fuse: without its key it would lose its placement."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        """Tell dask's fusion of linear chains to leave this task alone."""
        return True


class Operands(NamedTuple):
    """The matrices of a product: dask arrays, chunked as a grid says.

    To tasks, their names, or sources, which tasks read themselves.
    """

    a: Any
    b: Any  # a for herk and syrk
    c: Any = None
    diag: Any = None  # the diagonal between a and b, or all of its entries

    @classmethod
    def of(cls, problem: Any, a: Any, b: Any, c: Any = None) -> "Operands":
        """Return these instead of a problem's own, with its diagonal, cut like k."""
        diag, spec = problem.diag, problem.spec
        if hasattr(diag, "rechunk") and not spec.empty:
            k = a.chunks[is_straight("left", spec.op_a)]
            if diag.chunks != (k,):
                diag = diag.rechunk((k,), method="tasks")
        return cls(a, b, c, diag)

    def named(self) -> "Operands":
        """Return what tasks take: names, sources, and entries as they are."""
        names = (getattr(x, "source", None) or getattr(x, "name", x) for x in self)
        return Operands(*names)


def build_layer(
    name: str,
    operands: Operands,
    grid: Grid,
    spec: Spec,
    cells: Iterable[Cell] | None = None,
    found: Findings | None = None,
    kind: "type[Graph] | None" = None,
) -> dict[Key, Task]:
    """Return the tasks of a result by key; `name` is from `result_name`.

    The grid of an update is square, m and n alike. `cells`: computed tiles that are
    wanted; by default all tiles of the result. `found`: findings of an earlier one.
    """
    graph = (kind or Graph)(name, operands, grid, spec, cells)
    if found is None:
        program.product(graph, spec)
    else:
        program.multiply(graph, spec, graph.hold(found))
    return graph.tasks


class Graph(Analyser):
    """The interpreter of `program` that makes tasks."""

    def __init__(
        self,
        name: str,
        operands: Operands,
        grid: Grid,
        spec: Spec,
        cells: Iterable[Cell] | None = None,
    ) -> None:
        self.name, token = name, name.rpartition("-")[2]
        # One string a stage: a string remembers its hash, and keys are hashed often.
        stages = ("twom-read", *PRODUCT_STAGES, UPDATE, *SCALING_STAGES)
        self._stages = {x.removeprefix("twom-"): f"{x}-{token}" for x in stages}
        self.operands, self.grid, self.spec = operands, grid, spec
        self._order = grid.order or range(grid.kt)
        computed = spec.routine.cells(grid.mt, grid.nt, spec.uplo)
        self._others = cells is None  # an update's other triangle is wanted by default
        self._cells = computed if cells is None else [*cells]
        self.tasks: dict[Key, Task] = {}
        self._rows: dict[Any, Task] = {}

    def lines(self, side: Side, wanted: bool) -> Iterable[int]:
        if not wanted:
            return range(self.grid.mt if side == "left" else self.grid.nt)
        pairs = self.spec.routine.pairs
        both = self.spec.same_operand
        found = {
            x
            for cell in self._cells
            for pair in pairs(*cell)
            for own, x in zip(SIDES, pair, strict=True)
            if both or own == side
        }
        return sorted(found)

    def sweeps(self) -> Iterable[Sequence[Sequence[Cell]]]:
        if not self.grid.sweeps:
            return [[[cell]] for cell in self._cells]
        wanted, found = {*self._cells}, self.grid.sweeps
        kept = ([[x for x in sweep if x in wanted] for sweep in own] for own in found)
        return [[*filter(None, own)] for own in kept]

    def pair_blocks(self) -> Iterable[PairBlock]:
        grid, routine = self.grid, self.spec.pair_routine
        if not grid.goes_along_k:
            return routine.pair_blocks(grid.mt, grid.nt, grid.pair_block, grid.groups)
        # A worker has the octaves of the rows that it multiplies.
        share, layers = self.spec.share_pairs, len(grid.layers)
        return (x for own in chain(*grid.sweeps) for x in share(own, layers))

    def row(self, line: Line, steps: range, shifts: Sequence[Any] | None) -> Task:
        # All tasks share it, since a line has at most one set of shifts.
        key = (line, steps, shifts is None)
        if key not in self._rows:
            own = slice(steps.start, steps.stop)
            matrix, places, known = self.locate(line, steps)
            given = None if shifts is None else together(shifts[own])
            if isinstance(matrix, str):
                refs = [TaskRef((matrix, *place)) for place in places]
                row = Task(None, receive, *known, together(refs), given)
            else:
                # As one argument: dask looks for references in lists and tuples.
                begin = partial(Stream, matrix, places)
                row = Task(None, stream, *known, begin, given)
            self._rows[key] = self.scaled(row, line, steps)
        return self._rows[key]

    def scaled(self, row: Task, line: Line, steps: range) -> Task:
        """Have the columns of a row scaled, if it is of op(A) and has a diagonal."""
        diag = self.operands.diag
        if diag is None or line[0] == "right":
            return row
        for s in steps:
            key, at = (self._stages["diag"], s), self._order[s]
            if key not in self.tasks:
                own = TaskRef((diag, at)) if isinstance(diag, str) else self._cut(at)
                size = self.grid.k[s]
                self.tasks[key] = Task(key, run, receive_entries, self.spec, own, size)
        own = together([TaskRef((self._stages["diag"], s)) for s in steps])
        return Task(None, scale_row, row, own)

    def _cut(self, at: int) -> Array:
        """Cut the entries for a tile along k, by its place in the matrices."""
        sizes = dict(zip(self._order, self.grid.k, strict=True))
        start = sum(sizes[x] for x in range(at))
        own: Array = self.operands.diag[start : start + sizes[at]]
        return own

    def locate(self, line: Line, steps: range) -> tuple[Any, list[Cell], Any]:
        """Return a row's matrix, the places of its tiles, and what checks need."""
        side, i = line
        sizes = self.grid.m if side == "left" else self.grid.n
        matrix = self.operands.a if side == "left" else self.operands.b
        straight = is_straight(side, self.spec.op(side))
        at = self._order
        places = [(i, at[s]) if straight else (at[s], i) for s in steps]
        known = self.spec, side, (sizes[i], self.grid.k[steps.start : steps.stop])
        return matrix, places, known

    def c_tile(self, cell: Cell) -> Task | None:
        if self.operands.c is None:
            return None
        shape = self.grid.m[cell[0]], self.grid.n[cell[1]]
        ref = TaskRef((self.operands.c, *cell))
        return Task(None, receive_added, self.spec, ref, shape)

    def call(self, stage: str, where: Any, function: Any, *args: Any) -> Any:
        if stage == "update" and not self._others:
            return None
        key = (self._stages[stage], *where)
        make = TileTask if stage == "product" else Task
        args = tuple(as_given(x) if isinstance(x, list | tuple) else x for x in args)
        self.tasks[key] = make(key, run, function, *args)
        return TaskRef(key)

    def each(
        self, stage: str, function: Any, spec: Any, cases: Any, more: Any = ()
    ) -> Any:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for where in cases:
            side, i, *rest = where
            groups[side, self.grid.groups_of(side)[i], *rest].append(where)
        found = {}
        for own in groups.values():
            given = [cases[where] for where in own]
            at = (*own[0], *more)
            if len(own) == 1:
                found[own[0]] = self.call(stage, at, function, spec, *given[0])
                continue
            ref = self.call(stage, at, partial(call_each, function), spec, given)
            found |= {where: self.pick(ref, n) for n, where in enumerate(own)}
        return found

    def pick(self, found: Any, n: int) -> Any:
        return Task(None, pick, found, n)

    def emit(self, cell: Cell, tile: Any) -> None:
        key = (self.name, *cell)
        if tile is not None and key not in self.tasks:
            self.tasks[key] = Alias(key, tile.key)

    def hold(self, found: Findings) -> Findings:
        """Make one task of each array, so that the scheduler handles them singly."""
        shifts, measured = found.shifts, found.measured
        if shifts is not None:
            shifts = [self.constant("shifts", (s,), x) for s, x in enumerate(shifts)]
        if measured is not None:
            own = lines(self, self.spec, wanted=True)
            measured = {x: self.constant("sums", x, measured[x]) for x in own}
        return found._replace(shifts=shifts, measured=measured)

    def constant(self, stage: str, where: Any, value: Any) -> TaskRef:
        """Add a task that is a value."""
        # Not the key of the task that has found it: a scheduler may still hold that.
        key = (self._stages[stage], *where, "held")
        self.tasks[key] = Task(key, getitem, [value], 0)
        return TaskRef(key)


def together(refs: Sequence[Any]) -> Any:
    """List references; a single one stays as it is, since a list takes 5 us."""
    return refs[0] if len(refs) == 1 else List(*refs)


def as_given(x: Any) -> Any:
    """Wrap lists so that dask finds the references in them."""
    return List(*map(as_given, x)) if isinstance(x, list | tuple) else x
