"""Dask arrays whose chunks tasks make by themselves, each from its own part of a graph.

Such a product holds a few chunks at a time, whatever the scheduler does: it is the task
that makes a chunk, multiplies it and drops it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dask
from dask.core import flatten
from dask.optimization import cull
from dask.sizeof import sizeof

from ..tiles.task_spec import DataNode
from ..typing import Array, Cell

# A part of the graph has its chunk in it if it takes more than this share of it, and
# than these bytes, and so many for each task, of which dask says 4 to 6 KiB.
_MOST_SHARE, _FEW_BYTES, _TASK_BYTES = 0.1, 2**16, 2**13

# Chunks that share more of their tasks than this are not made one by one: a rechunked
# array may read a stored chunk for each of many.
_MOST_REPEATED = 1.5


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

    They should not if the chunks are in memory, share their tasks, or are bound to
    workers by annotations.
    """
    if hasattr(array, "expr"):
        return None
    keys = [*flatten(array.__dask_keys__())]
    if any(layer.annotations for layer in array.dask.layers.values()):
        return None
    graph = dict(array.__dask_optimize__(array.dask, keys))
    graphs, tasks, repeated = {}, set(), 0
    for key in keys:
        # Chunks that a cluster holds have no tasks.
        if key not in graph:
            return None
        own, needed = cull(graph, [key])
        if any(x not in graph for found in needed.values() for x in found):
            return None
        # NaN if a size is unknown, which is no maximum.
        entries = array.chunks[0][key[1]] * array.chunks[1][key[2]]
        few = max(_FEW_BYTES, _MOST_SHARE * entries * array.dtype.itemsize)
        if sum(map(sizeof, own.values())) > few + _TASK_BYTES * len(own):
            return None
        # The stored matrix itself is in every part.
        steps = [x for x, node in own.items() if not isinstance(node, DataNode)]
        if not steps:
            return None
        repeated += len(steps)
        tasks.update(steps)
        graphs[key[1:]] = own
    few = repeated <= _MOST_REPEATED * len(tasks)
    return ChunkSource(array.name, graphs) if few else None
