"""Lazy dask arrays made of our own tasks, in both of dask's array back ends."""

from typing import Any

from dask.highlevelgraph import HighLevelGraph

from .graph import Operands
from .grid import Grid
from .rank_graph import AnySpec, build_layer, result_name


def product_array(a: Any, b: Any, c: Any, grid: Grid, spec: AnySpec) -> Any:
    """Make the lazy product, or update, of aligned dask arrays; nothing is computed.

    Parameters
    ----------
    a, b : dask.array.Array
        Chunked alike along k.
    c : dask.array.Array or None
        Chunked like the result.
    grid : Grid
    spec : ProductSpec or RankSpec
    """
    if hasattr(a, "expr"):
        from .expression import product_expression

        return product_expression(a, b, c, grid, spec)
    # `dask.array.Array` is the class of the back end that is configured.
    from dask.array.core import Array

    names = (a.name, b.name, None if c is None else c.name)
    name = result_name(spec, *names, grid)
    layer = build_layer(name, Operands(*names), grid, spec)
    inputs = [x for x in (a, b, c) if x is not None]
    graph = HighLevelGraph.from_collections(name, layer, dependencies=inputs)
    # A is of the result's dtype by now; a CuPy block cannot be made without a device.
    return Array(graph, name, (grid.m, grid.n), meta=a._meta)
