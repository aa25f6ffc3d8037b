"""Dask arrays whose chunks tasks make by themselves, each from its own part of a graph.

Such a product holds a few chunks at a time, whatever the scheduler does: it is the task
that makes a chunk, multiplies it and drops it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dask
from dask.core import flatten
from dask.sizeof import sizeof

from ..tiles.task_spec import DataNode, convert_legacy_graph
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
    graphs, uses = {}, Counter[Any]()
    for key in keys:
        own = _collect(key, graph, uses)
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


def _collect(
    key: Any, graph: Mapping[Any, Any], uses: Counter[Any]
) -> dict[Any, Any] | None:
    """Collect the tasks that make a chunk, and count for how many each is used.

    None if one of them is used for too many, or is not in the graph: a cluster has it.
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
        if not isinstance(node, DataNode):
            uses[key] += 1
            if uses[key] > _MOST_CHUNKS:
                return None
        own[key] = node
        wanted += node.dependencies
    return own


def _is_future(x: Any) -> bool:
    """Tell a future of distributed, without importing it."""
    return type(x).__module__.partition(".")[0] == "distributed"
