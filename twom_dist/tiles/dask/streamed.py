"""Graph builder for streamed inputs: each task recomputes the chunks it multiplies.

The first task that reads a row of tiles takes their fingerprints, and every later one
compares what it reads with them: a source that gives other data is an error.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import getitem
from typing import Any, NamedTuple, Protocol, cast

from ...errors import StoreError, portable_errors
from ...typing import Array, Cell, Side
from ..blocks import check_tile
from ..grid import Grid
from ..interpreter import Line
from ..rows import Row, Source, Stream
from ..spec import Spec, load_engine
from .calls import as_list
from .graph import Graph, together
from .task_spec import List, Task, TaskRef

Checksums = dict[Cell, int]  # fingerprints by the place of the chunk


class Chunks(Source, Protocol):
    """A source that need not be sent whole."""

    def take(self, places: Iterable[Cell]) -> "Chunks":
        """Return a source of some of the tiles."""
        ...


class _Wanted(NamedTuple):
    """A row that is yet to be read by the first, or by a later task."""

    line: Line
    steps: range
    shifts: Sequence[Any] | None


class StreamedGraph(Graph):
    """The interpreter whose tasks make their tiles; operands are `Chunks`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # For each tile of a source the tasks that read it first, as parts of a line.
        self._prints: dict[tuple[Any, Cell], dict[Line, TaskRef]] = {}

        self._keeps = keeps_rows(self.grid, self.spec)

    def row(self, line: Line, steps: range, shifts: Sequence[Any] | None) -> Any:
        return _Wanted(line, steps, shifts)

    def call(self, stage: str, where: Any, function: Any, *args: Any) -> Any:
        fresh = [x for x in args if isinstance(x, _Wanted) and not self._known(x)]
        if stage in ("panel", "sweep", "product"):
            # No analysis has recorded checksums yet: each cell would trust its source.
            for x in fresh:
                if not self._known(x):
                    self._read(x)
            fresh = []
        keeps = self._keeps and stage in ("sums", "exponents")
        args = tuple(
            self._make(x, keeps) if isinstance(x, _Wanted) else x for x in args
        )
        if not fresh:
            return super().call(stage, where, function, *args)
        whole = super().call(
            "read", (stage, *where), partial(with_prints, function), *args
        )
        self._keep(fresh[0], self._part("read", (*where, "prints"), whole, 1))
        return self._part(stage, where, whole, 0)

    def _first(self, row: _Wanted) -> tuple[list[dict[Line, TaskRef]], Line]:
        """Return who has read the tiles of a row first, and the line as it is read."""
        matrix, places, _ = self.locate(row.line, row.steps)
        side, i = row.line
        firsts = [self._prints.setdefault((matrix, place), {}) for place in places]
        return firsts, (self.spec.side_of(side), i)

    def _known(self, row: _Wanted) -> bool:
        firsts, own = self._first(row)
        return all(own in first for first in firsts)

    def _keep(self, row: _Wanted, prints: TaskRef) -> None:
        firsts, own = self._first(row)
        for first in firsts:
            first[own] = prints

    def _read(self, row: _Wanted) -> None:
        """Add a task that only takes the fingerprints of a row."""
        made = self._make(row._replace(shifts=None))
        where = *self._first(row)[1], row.steps.start
        self._keep(row, super().call("read", where, read_prints, self.spec, made))

    def _part(self, stage: str, where: Any, whole: TaskRef, index: int) -> TaskRef:
        key = (self._stages[stage], *where)
        self.tasks[key] = Task(key, getitem, whole, index)
        return TaskRef(key)

    def _make(self, row: _Wanted, keeps: bool = False) -> Task:
        """Make the argument of a task; all tasks that read alike share it."""
        line, steps, shifts = row
        known = self._known(row)
        key = (line, steps, shifts is None, known, keeps)
        if key not in self._rows:
            matrix, places, checks = self.locate(line, steps)
            firsts, _ = self._first(row)
            # If B is A, both sides have read the tile.
            refs = dict.fromkeys(x for first in firsts for x in first.values())
            own = slice(steps.start, steps.stop)
            given = None if shifts is None else together(shifts[own])
            source = partial(_Streamed, matrix.take(places), places, keeps)
            earlier = List(*refs if known else ())
            made = Task(None, remake, *checks, source, earlier, given)
            self._rows[key] = self.scaled(made, line, steps)
        return self._rows[key]


def keeps_rows(grid: Grid, spec: Spec) -> bool:
    """Tell whether a row that is measured twice is kept meanwhile, and made once.

    It is where the sums of a sweep take more later.
    """
    if len(grid.strips) > 1 or spec.native or spec.empty:
        return False
    row = max(*grid.m, *grid.n) * grid.shape[2] * spec.input_itemsize
    cells = max((len(x) for own in grid.sweeps for x in own), default=1)
    return row <= cells * max(grid.m) * max(grid.n) * spec.system.entry_bytes


class _Streamed(Stream):
    """Tiles that are checked, and compared with those of an earlier reading."""

    def __init__(
        self,
        source: Source,
        places: Sequence[Cell],
        keeps: bool,
        check: Callable[[Array, int], Array],
        take_print: Callable[[Array], int],
        earlier: Checksums,
    ) -> None:
        super().__init__(source, places)
        self._check, self._take_print, self._earlier = check, take_print, earlier
        self._kept: dict[int, Array] | None = {} if keeps else None
        self.prints: Checksums = {}

    def read(self, step: int) -> Array:
        """Make a tile, and take its fingerprint."""
        if self._kept and step in self._kept:
            return self._kept[step]
        tile, place = self._check(super().read(step), step), self._places[step]
        found = {place: self._take_print(tile)}
        # This task may have read it, too.
        _compare(self._earlier, found)
        _compare(self.prints, found)
        self.prints |= found
        if self._kept is not None:
            self._kept[step] = tile
        return tile

    def mark(self, step: int) -> int:
        return self.prints[self._places[step]]


def _compare(earlier: Checksums, prints: Mapping[Cell, int]) -> None:
    for place, found in prints.items():
        if earlier.get(place, found) != found:
            problem = f"chunk {place} of an input has changed as it was computed again"
            way = "let the product hold it (the setting twom-dist.inputs: hold)"
            raise StoreError(problem, f"Persist the input, or {way}", "input-changed")


def remake(
    spec: Spec,
    side: Side,
    sizes: tuple[int, Sequence[int]],
    begin: Callable[..., _Streamed],
    earlier: Sequence[Mapping[Cell, int]],
    shifts: Any,
) -> Row:
    """Make a row whose tiles are made as they are multiplied."""
    rows, steps = sizes

    def check(tile: Array, step: int) -> Array:
        with portable_errors():
            return check_tile(tile, (rows, steps[step]), side, spec)

    known: Checksums = {}
    for prints in earlier:
        with portable_errors():
            _compare(known, prints)
        known |= prints
    made = begin(check, load_engine(spec).fingerprint, known)
    return Row(side, made, as_list(shifts, len(steps)))


def with_prints(
    function: Callable[..., Any], spec: Spec, row: Row, *args: Any
) -> tuple[Any, Checksums]:
    """Call a stage that reads a row, and return the fingerprints as well."""
    found = function(spec, row, *args)
    return found, cast(_Streamed, row.tiles).prints


def read_prints(spec: Spec, row: Row) -> Checksums:
    """Take the fingerprints of a row."""
    for step in row.steps:
        row.view(step, spec)
    return cast(_Streamed, row.tiles).prints
