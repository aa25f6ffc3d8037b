"""Dask arrays whose chunks tasks make by themselves, each from its own part of a graph.

Such a product holds a few chunks at a time, whatever the scheduler does: it is the task
that makes a chunk, multiplies it and drops it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dask
from dask.blockwise import Blockwise
from dask.core import flatten
from dask.sizeof import sizeof

from ..tiles.dask.task_spec import Alias, DataNode, convert_legacy_graph
from ..typing import Array, Cell

# A part of the graph has its chunk in it if it takes more than this share of it, and
# than these bytes, and so many for each task, of which dask says 4 to 6 KiB.
_MOST_SHARE, _FEW_BYTES, _TASK_BYTES = 0.1, 2**16, 2**13

# A task of more chunks than this is not run for each of them: a rechunked array may
# read a stored chunk for each of four; a centred one would sum all rows each time.
_MOST_CHUNKS = 4


@dataclass(frozen=True)
class ChunkSource:
    """Chunks of a dask array, by the tasks that make each of them.

    Attributes
    ----------
    name : str
        Name of the array.
    graphs : mapping of (i, j) to graph
    """

    name: str
    graphs: Mapping[Cell, Mapping[Any, Any]] = field(compare=False)

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
    if hasattr(array, "expr"):
        return None
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

    A few tasks make a block that is repeated along an axis, along which it has one
    entry. What is cut out of an array in memory is cut out now, and sent without it.
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

    None if one of them is used for too many, unless it is `free`, or is not in the
    graph: a cluster has it.
    """
    own: dict[Any, Any] = {}
    wanted = [key]
    while wanted:
        key = wanted.pop()
        if key in own:
            continue
        node = graph.get(key)
        if node is None or (isinstance(node, DataNode) and _is_future(node.value)):
            return None
        if not isinstance(node, DataNode) and key not in free:
            uses[key] += 1
            if uses[key] > _MOST_CHUNKS:
                return None
        own[key] = node
        wanted += node.dependencies
    return own


def _is_future(x: Any) -> bool:
    """Tell a future of distributed, without importing it."""
    return type(x).__module__.partition(".")[0] == "distributed"
