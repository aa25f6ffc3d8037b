"""Lazy dask arrays made of our own tasks, in both of dask's array back ends."""

from collections.abc import Sequence
from typing import Any

from dask.highlevelgraph import HighLevelGraph

from ..typing import Cell
from .graph import Operands, build_layer, result_name
from .grid import Grid
from .spec import Spec


def product_array(
    a: Any,
    b: Any,
    c: Any,
    grid: Grid,
    spec: Spec,
    cells: Sequence[Cell] | None = None,
) -> Any:
    """Make the lazy result of dask arrays that are chunked as the grid says.

    b is a for herk and syrk. `cells`: tiles of the result that are wanted; the array
    has no others.
    """
    if hasattr(a, "expr"):
        from .expression import product_expression

        return product_expression(a, b, c, grid, spec)
    # `dask.array.Array` is the class of the back end that is configured.
    from dask.array.core import Array

    names = (a.name, b.name, None if c is None else c.name)
    name = result_name(spec, *names, grid, cells)
    layer = build_layer(name, Operands(*names), grid, spec, cells)
    inputs = [x for x in ((c,) if spec.empty else (a, b, c)) if x is not None]
    graph = HighLevelGraph.from_collections(name, layer, dependencies=inputs)
    # A is of the result's dtype by now; a CuPy block cannot be made without a device.
    return Array(graph, name, (grid.m, grid.n), meta=a._meta)
