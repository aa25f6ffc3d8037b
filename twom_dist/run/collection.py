"""Lazy matrices made of our own tasks: dask arrays of both back ends, tiles of jobs."""

from collections.abc import Callable, Sequence, Set
from typing import Any

from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ..kernels.statistics import RowStatistics
from ..tiles import program
from ..tiles.accumulator import SweepStep
from ..tiles.blocks import result_meta
from ..tiles.dask.graph import Graph, Key, Operands, build_layer, result_name
from ..tiles.dask.streamed import Chunks, StreamedGraph
from ..tiles.dask.task_spec import List, Task, TaskRef
from ..tiles.grid import Grid
from ..tiles.interpreter import Findings, Line
from ..tiles.spec import Spec
from ..typing import Cell


def product_array(
    operands: Operands,
    grid: Grid,
    spec: Spec,
    cells: Sequence[Cell] | None = None,
    found: Findings | None = None,
    sources: tuple[Chunks, Chunks] | None = None,
) -> Any:
    """Make the lazy result, of A's class, of matrices chunked as the grid says.

    `cells`: tiles that are wanted; the array has no others. `found`: findings of an
    analysis. `sources`: of A and B, whose chunks the tasks make themselves.
    """
    a, b, c = operands[:3]
    named, inputs = operands.named(), [c] if spec.empty else [*operands]
    kind: type[Graph] = Graph
    if sources is not None:
        named, inputs = named._replace(a=sources[0], b=sources[1]), inputs[2:]
        kind = StreamedGraph
    parts = a.name, b.name, named[2:], grid, cells, found, kind.__name__
    name = result_name(spec, parts)
    tasks = TileLayer(build_layer(name, named, grid, spec, cells, found, kind))
    arrays = [x for x in inputs if hasattr(x, "dask")]
    graph = HighLevelGraph.from_collections(name, tasks, arrays)
    return type(a)(graph, name, (grid.m, grid.n), meta=result_meta(a._meta, spec))


def look_at_arrays(
    operands: Operands, grid: Grid, spec: Spec, compute: Callable[[Any], Any]
) -> Findings:
    """Analyse whole dask arrays, chunked as the grid says.

    `compute` is given one lazy value after another. Each takes all chunks, a row of
    tiles at once; chunks that are not held are made again for each.
    """
    return _Passes(operands._replace(c=None), grid, spec, compute).look()


class _Passes(Graph):
    """Tasks that are computed as soon as the program needs their results."""

    def __init__(
        self, operands: Operands, grid: Grid, spec: Spec, compute: Callable[[Any], Any]
    ) -> None:
        named = operands.named()
        super().__init__(f"look-{tokenize(named, grid, spec)}", named, grid, spec)
        self._inputs = [x for x in operands if hasattr(x, "dask")]
        self._compute, self._passes = compute, 0
        self._shifts: Any = None
        self._measured: dict[Line, RowStatistics] | None = None

    def look(self) -> Findings:
        spec = program.look(self, self.spec).spec
        return Findings(spec, self._shifts, self._measured)

    def decide(self, shifts: Any, before: Any) -> tuple[Any, Any]:
        """Compute the shifts, and the measurements that hold without any."""
        whole = {}
        if self.spec.data_driven:
            whole = program.add_strips(self, self.spec, before)
        *found, known = self._compute_all([*shifts, List(*whole.values())])
        if found[0] is not None:
            self._shifts = found
            return [self.constant("shifts", (s,), x) for s, x in enumerate(found)], {}
        if not self.spec.data_driven:
            return None, {}
        self._measured = dict(zip(whole, known, strict=True))
        return None, {(*line, 0): x for line, x in self._measured.items()}

    def settle(self, found: Any) -> Any:
        """Compute the measurements of all rows, or the spec."""
        if not isinstance(found, dict):
            (spec,) = self._compute_all([found])
            self._hold()
            return spec
        if self._measured is None:
            known = self._compute_all([*found.values()])
            self._measured = dict(zip(found, known, strict=True))
        return self._hold()

    def _hold(self) -> dict[Line, Any]:
        """Make tasks of what has been found, for those that come after."""
        found = self.hold(Findings(self.spec, self._shifts, self._measured))
        return dict(found.measured or {})

    def _compute_all(self, refs: list[Any]) -> list[Any]:
        """Compute values, and begin a graph that takes the tiles again."""
        from dask.delayed import Delayed

        # Each pass has a key of its own: the scheduler may still hold earlier results.
        self._passes += 1
        ref = self.call("spec", ("pass", self._passes), _bring_to_host, self.spec, refs)
        graph = HighLevelGraph.from_collections(self.name, self.tasks, self._inputs)
        found = self._compute(Delayed(ref.key, graph, layer=self.name))
        self.tasks, self._rows = {}, {}
        return list(found)


def _bring_to_host(spec: Spec, found: Sequence[Any]) -> list[Any]:
    """Bring measured rows to the host, with what later stages take."""

    def bring(x: Any) -> Any:
        if isinstance(x, list):
            return [own.on_host() for own in x]
        kept = isinstance(x, RowStatistics)
        return x._replace(columns=None).on_host() if kept else x

    return [*map(bring, found)]


def _awaited(task: Any) -> Key | None:
    """Return what the first step of a sweep waits for, which it is given as sums."""
    args: tuple[Any, ...] = getattr(task, "args", ())
    if len(args) < 4 or not isinstance(args[2], SweepStep) or args[2].done:
        return None
    return args[3].key if isinstance(args[3], TaskRef) else None


class TileLayer(MaterializedLayer):
    """Tasks by key, of which sweeps wait for others only where these are wanted."""

    def cull(self, keys: Set[Any], all_hlg_keys: Set[Any]) -> Any:
        """Leave out what `keys` do not take; sweeps wait only for those that are kept.

        A sweep is given, and needs nothing of, the one before on its worker.
        """
        tasks, free = self.mapping, dict(self.mapping)
        waiting = {key: y for key, x in tasks.items() if (y := _awaited(x)) is not None}
        if not waiting:
            return super().cull(keys, all_hlg_keys)
        for key in waiting:
            x = tasks[key]
            free[key] = Task(key, x.func, *x.args[:3], None, *x.args[4:])
        kept = MaterializedLayer(free).cull(keys, all_hlg_keys)[0].mapping
        free |= {x: tasks[x] for x, y in waiting.items() if x in kept and y in kept}
        return MaterializedLayer(free).cull(keys, all_hlg_keys)
