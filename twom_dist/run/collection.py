"""Lazy matrices made of our own tasks: dask arrays of both back ends, tiles of jobs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from ..tiles.blocks import result_meta
from ..tiles.graph import build_layer, result_name
from ..tiles.grid import Grid
from ..tiles.scaled import Shifts, build_scaled, build_survey, scaled_name
from ..tiles.scaling import AllMeasured, Key, Operands, ScalingTasks
from ..tiles.spec import SIDES, Spec
from ..typing import Cell


def product_array(
    a: Any,
    b: Any,
    c: Any,
    grid: Grid,
    spec: Spec,
    cells: Sequence[Cell] | None = None,
) -> Any:
    """Make the lazy result of matrices that are chunked as the grid says, of A's class.

    b is a for herk and syrk. `cells`: tiles of the result that are wanted; the array
    has no others.
    """
    if hasattr(a, "expr"):
        from .expression import product_expression

        return product_expression(a, b, c, grid, spec)
    names = (a.name, b.name, None if c is None else c.name)
    name = result_name(spec, *names, grid, cells)
    layer = build_layer(name, Operands(*names), grid, spec, cells)
    inputs = [x for x in ((c,) if spec.empty else (a, b, c)) if x is not None]
    graph = HighLevelGraph.from_collections(name, layer, dependencies=inputs)
    return type(a)(graph, name, (grid.m, grid.n), meta=result_meta(a._meta, spec))


def scaled_arrays(
    a: Any, b: Any, grid: Grid, spec: Spec, shifts: Shifts | None = None
) -> Any:
    """Make A and B, dask arrays that are chunked as the grid says, equilibrated.

    `shifts`: of each tile along k, where they are known.
    """
    if hasattr(a, "expr"):
        from .expression import scaled_expressions

        return scaled_expressions(a, b, grid, spec)
    operands = Operands(a.name, b.name)
    made = []
    for side, x in zip(SIDES, (a, b), strict=True):
        name = scaled_name(side, spec, operands, grid, shifts)
        layer = build_scaled(name, side, operands, grid, spec, shifts)
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[a, b])
        made.append(type(x)(graph, name, x.chunks, meta=x._meta))
    return made


class Settled(NamedTuple):
    """What whole matrices have settled.

    Attributes
    ----------
    spec : Spec
        With its moduli.
    shifts : sequence of array, or None
        Of each tile along k; None where nothing is scaled.
    measured : sequence, or None
        Of the rows of both sides, scaled; None where nobody has looked.
    """

    spec: Spec
    shifts: Shifts | None = None
    measured: AllMeasured | None = None


def settle_arrays(
    a: Any, b: Any, grid: Grid, spec: Spec, compute: Callable[[Any], Any]
) -> Settled:
    """Look at whole dask arrays, chunked as the grid says, and settle the spec.

    `compute` is given one lazy value after the other: of one, all chunks of a row are
    held; from one to the next all are read again.
    """
    if not (spec.equilibrate or spec.grade):
        return Settled(spec)
    shifts, measured = compute(_survey(a, b, grid, spec))
    # Where nothing is gained, nothing is scaled.
    shifts = None if shifts is None or shifts[0] is None else shifts
    if shifts is not None:
        a, b = scaled_arrays(a, b, grid, spec, shifts)
        if spec.grade:
            scaled = replace(spec, equilibrate=False)
            _, measured = compute(_survey(a, b, grid, scaled))
    if spec.grade:
        operands = Operands(a.name, b.name)
        token = tokenize(operands, grid, spec)
        layer = ScalingTasks(token, operands, grid, spec, measured)
        spec = compute(_delay(layer.tasks, layer.settle().key, a, b))
    return Settled(spec, shifts, measured)


def _survey(a: Any, b: Any, grid: Grid, spec: Spec) -> Any:
    """Make what `build_survey` finds, lazily."""
    layer, key = build_survey(Operands(a.name, b.name), grid, spec)
    return _delay(layer, key, a, b)


def _delay(layer: dict[Key, Any], key: Key, a: Any, b: Any) -> Any:
    from dask.delayed import Delayed

    name = str(key[0])
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[a, b])
    return Delayed(key, graph, layer=name)
