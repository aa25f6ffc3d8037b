"""A lazy matrix of tiles: as much of a dask array as jobs need.

`dask.array` imports xarray, pandas and CuPy if they are installed, which takes 50 MiB
and a second at the start of a job.
"""

from typing import Any

from dask.base import DaskMethodsMixin
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph

from ..tiles.rows import Source
from ..typing import Array


class LazyTiles(DaskMethodsMixin):
    """Tiles with the keys (name, i, j), made as `dask.array.core.Array` is.

    `source`: what tasks read the tiles from themselves, in which case there are none.
    """

    def __init__(
        self,
        dask: HighLevelGraph,
        name: str,
        chunks: tuple[tuple[int, ...], ...],
        meta: Array,
        source: Source | None = None,
    ) -> None:
        self.dask, self.name, self.chunks, self._meta = dask, name, chunks, meta
        self.source = source

    def __dask_graph__(self) -> HighLevelGraph:
        """Return the tasks."""
        return self.dask

    def __dask_layers__(self) -> tuple[str]:
        """Name the tasks that are ours."""
        return (self.name,)

    def __dask_keys__(self) -> list[list[tuple[str, int, int]]]:
        """List the keys, row of tiles by row of tiles."""
        rows, columns = (range(len(sizes)) for sizes in self.chunks)
        return [[(self.name, i, j) for j in columns] for i in rows]

    def __dask_tokenize__(self) -> str:
        """Return the name, which is made of everything that defines the tiles."""
        return self.name

    @staticmethod
    def __dask_optimize__(graph: Any, keys: Any, **_: Any) -> Any:
        """Leave out tasks that nobody has asked for."""
        return graph.cull(set(flatten(keys)))

    def __dask_postcompute__(self) -> tuple[Any, tuple[()]]:
        """Return rows of tiles as they are; dask asks even where nobody computes."""
        return list, ()

    def __dask_postpersist__(self) -> tuple[Any, tuple[()]]:
        """Keep the name, now that of results."""
        return self._with_results, ()

    def _with_results(self, results: Any, **_: Any) -> "LazyTiles":
        graph = HighLevelGraph.from_collections(self.name, results)
        return LazyTiles(graph, self.name, self.chunks, self._meta)
