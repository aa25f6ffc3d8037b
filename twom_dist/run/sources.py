"""Inputs of lazy products: held by the workers, or made again by every task.

If inputs are made again, each task has a part of the graph that makes a chunk,
multiplies the chunk and drops it. So the product holds only a few chunks at a time,
whatever the scheduler does.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import dask
from dask.blockwise import Blockwise
from dask.core import flatten
from dask.sizeof import sizeof

from ..config import choice_setting
from ..errors import PlanError
from ..plan import Cluster, Plan, check_fit, make_plan
from ..tiles.dask.task_spec import Alias, DataNode, convert_legacy_graph
from ..tiles.grid import Chunks
from ..tiles.spec import Spec
from ..typing import Array, Cell

# A part of the graph has its chunk in it if it takes more than this share of it, and
# than these bytes, and so many for each task, of which dask says 4 to 6 KiB.
_MOST_SHARE, _FEW_BYTES, _TASK_BYTES = 0.1, 2**16, 2**13

# A task of more chunks than this is not run for each of them: a rechunked array may
# read a stored chunk for each of four; a centred one would sum all rows each time.
_MOST_CHUNKS = 4


@dataclass(frozen=True)
class ChunkSource:
    """Chunks of a dask array, by the tasks that make each of them."""

    name: str  # name of the array
    graphs: Mapping[Cell, Mapping[Any, Any]] = field(compare=False)  # by (i, j)

    def take(self, places: Iterable[Cell]) -> "ChunkSource":
        """Return a source of some of the chunks."""
        return ChunkSource(self.name, {x: self.graphs[x] for x in places})

    def read(self, i: int, j: int) -> Array:
        """Make a chunk."""
        return dask.get(self.graphs[i, j], (self.name, i, j))


def make_source(array: Any) -> ChunkSource | None:
    """Return the source of an array's chunks; None if tasks should not make them.

    They should not if the chunks are in memory, or made of what a cluster holds, if
    many share a task, or if they are bound to workers by annotations.
    """
    keys = [*flatten(array.__dask_keys__())]
    if any(layer.annotations for layer in array.dask.layers.values()):
        return None
    graph = convert_legacy_graph(dict(array.__dask_optimize__(array.dask, keys)))
    free = _settle_broadcast(array.dask.layers, graph)
    graphs, uses = {}, Counter[Any]()
    for key in keys:
        own = _collect(key, graph, uses, free)
        if own is None:
            return None
        # NaN if a size is unknown, which is no maximum.
        entries = array.chunks[0][key[1]] * array.chunks[1][key[2]]
        few = max(_FEW_BYTES, _MOST_SHARE * entries * array.dtype.itemsize)
        if sum(map(sizeof, own.values())) > few + _TASK_BYTES * len(own):
            return None
        # The stored matrix itself is in every part.
        if all(isinstance(node, DataNode) for node in own.values()):
            return None
        graphs[key[1:]] = own
    return ChunkSource(array.name, graphs)


def _settle_broadcast(layers: Mapping[str, Any], graph: dict[Any, Any]) -> set[Any]:
    """Return the tasks that may be run for any number of chunks: weights, for example.

    A few tasks make a block of one entry along the axis that it is repeated along. What
    is cut out of an array in memory is cut out now, and sent without it.
    """
    names = {x for layer in layers.values() for x in _list_broadcast(layer)}
    free: set[Any] = set()
    for key in [x for x in graph if isinstance(x, tuple) and x[0] in names]:
        own = _collect(key, graph, Counter(), set())
        if own is None:
            continue
        tasks = [x for x in own.values() if not isinstance(x, DataNode | Alias)]
        if len(tasks) <= _MOST_CHUNKS:
            free.update(own)
            if all(x.dependencies for x in tasks):
                graph[key] = DataNode(key, dask.get(own, key))
    return free


def _list_broadcast(layer: Any) -> Iterable[str]:
    """List the vectors of which a layer repeats blocks along an axis."""
    if isinstance(layer, Blockwise):
        for name, index in layer.indices:
            blocks = layer.numblocks.get(name) if index else None
            across = len(index or ()) < min(2, len(layer.output_indices))
            if blocks and (across or blocks != tuple(layer.dims[i] for i in index)):
                yield name


def _collect(
    key: Any, graph: Mapping[Any, Any], uses: Counter[Any], free: Collection[Any]
) -> dict[Any, Any] | None:
    """Collect the tasks that make a chunk, and count for how many each is used.

    None if one is used for too many, unless it is `free`, or if only a cluster has it.
    """
    own: dict[Any, Any] = {}
    wanted = [key]
    while wanted:
        key = wanted.pop()
        if key in own:
            continue
        node = graph.get(key)
        if node is None:
            return None
        if isinstance(node, DataNode):
            # Without importing distributed.
            if type(node.value).__module__.partition(".")[0] == "distributed":
                return None
        elif key not in free:
            uses[key] += 1
            if uses[key] > _MOST_CHUNKS:
                return None
        own[key] = node
        wanted += node.dependencies
    return own


# For each choice of the setting, whether tasks make their inputs, in order.
_WAYS = {"auto": (False, True), "hold": (False,), "stream": (True,)}


class Inputs:
    """Aligned operands of a product, and the sources of their chunks."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    @cached_property
    def sources(self) -> tuple[ChunkSource, ChunkSource] | None:
        """Sources of A and B; None if tasks should not make the chunks of both."""
        a = make_source(self.a)
        b = a if self.b is self.a or a is None else make_source(self.b)
        return None if a is None or b is None else (a, b)


def plan_inputs(
    spec: Spec,
    chunks: tuple[Chunks, Chunks, Chunks],
    cluster: Cluster,
    can_stream: Callable[[], bool],
    *,
    strict: bool = True,
    choice: str | None = None,
) -> Plan:
    """Plan a product whose inputs are held, where that fits, or made again.

    A result that does not fit next to them may leave as it is made, so that it does not
    have to. The least of all needs is the one that is refused. `choice`: in the place
    of `twom-dist.inputs`.
    """
    chosen = choice or choice_setting("inputs")
    if chosen == "stream" and not spec.empty and not can_stream():
        problem = (
            "twom-dist.inputs='stream' needs inputs that can be computed again chunk "
            "by chunk; these are in memory, share tasks, or are bound to workers"
        )
        raise PlanError(problem, "Set twom-dist.inputs to 'auto'", "inputs-held")

    tried = []
    ways = (False,) if spec.empty else _WAYS[chosen]
    for leaving, streams in product((False, True), ways):
        if streams and not can_stream():
            continue
        plan = make_plan(spec, chunks, cluster, streams=streams, leaving=leaving)
        if plan.fits(leaving=leaving):
            return plan
        need = plan.memory.least if leaving else plan.memory.total
        tried.append((need, leaving, plan))
    _, leaving, plan = min(tried, key=lambda x: x[0])
    # Only the one that is refused says what would help.
    return check_fit(plan, leaving=leaving) if strict else plan
