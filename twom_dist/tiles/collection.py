"""Lazy dask arrays made of our own tasks, in both of dask's array back ends."""

from collections.abc import Sequence
from typing import Any

from dask.highlevelgraph import HighLevelGraph

from ..typing import Cell
from .graph import SIDES, Operands, build_layer, result_name
from .grid import Grid
from .scaled import Shifts, build_scaled, build_shifts, scaled_name
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


def scaled_arrays(
    a: Any, b: Any, grid: Grid, spec: Spec, shifts: Shifts | None = None
) -> Any:
    """Make A and B, dask arrays that are chunked as the grid says, equilibrated.

    `shifts`: of each tile along k, where they are known.
    """
    if hasattr(a, "expr"):
        from .expression import scaled_expressions

        return scaled_expressions(a, b, grid, spec)
    from dask.array.core import Array

    operands = Operands(a.name, b.name)
    made = []
    for side, x in zip(SIDES, (a, b), strict=True):
        name = scaled_name(side, spec, operands, grid, shifts)
        layer = build_scaled(name, side, operands, grid, spec, shifts)
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[a, b])
        made.append(Array(graph, name, x.chunks, meta=x._meta))
    return made


def choose_shifts(a: Any, b: Any, grid: Grid, spec: Spec) -> Any:
    """Make the lazy shifts of each tile along k, of whole A and B."""
    from dask.delayed import Delayed

    layer, key = build_shifts(Operands(a.name, b.name), grid, spec)
    name = str(key[0])
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[a, b])
    return Delayed(key, graph, layer=name)
