"""The tasks of a wave: reading, multiplying and writing its tiles."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from ..errors import portable_errors
from ..kernels.family import bring_to_host, family_of
from ..kernels.registry import get_engine
from ..plan import Wave, share_look
from ..run.collection import look_at_arrays, product_array
from ..store import Output
from ..tiles.dask.graph import Operands, TileTask
from ..tiles.dask.task_spec import Task, TaskRef
from ..tiles.grid import ONE_PANEL
from ..tiles.interpreter import Findings
from ..tiles.spec import Spec
from ..typing import Array, Cell
from .execution import at_disk
from .job import Mirror
from .operands import EVERY, Blocks, LazyTiles, TilePair, read_inputs, read_tiles
from .run import Run

# Rows of tiles up to this size are analysed as single tiles; larger ones are read once
# more, for their largest exponents, which takes little beside multiplying them.
STRIP_BYTES = 2**26


def look_at_whole(
    run: Run, compute: Callable[[Any], Any], inputs: TilePair | None = None
) -> Findings:
    """Find shifts along k, and moduli, from whole matrices, larger than a wave or not.

    The findings do not depend on the tiling; whole rows take the fewest tasks. Where no
    inputs are given, these read the tiles themselves, and hold one at a time.
    """
    job, layout, spec = run.job, run.layout, run.layout.spec
    (mb, nb, kb), grid, (_, _, k) = layout.tile_shape, layout.grid, layout.shape
    if inputs is None and max(mb, nb) * k * spec.input_itemsize <= STRIP_BYTES:
        grid, kb = replace(grid, k=(k,), layers=ONE_PANEL, strips=()), max(1, k)
    else:
        grid = share_look(grid, spec, run.cluster)
    a, b = inputs or read_inputs(job, (mb, nb, kb), EVERY, EVERY, streams=True)
    operands = Operands.of(job, a, b)
    found = look_at_arrays(operands, grid, spec, compute)
    if found.shifts is None:
        return found
    shifts = np.concatenate([*found.shifts])
    ends = np.cumsum(layout.grid.k)[:-1]
    return found._replace(shifts=np.split(shifts, ends))


def make_tasks(
    run: Run,
    wave: Wave,
    cells: list[Cell],
    found: Findings | None = None,
    inputs: TilePair | None = None,
) -> LazyTiles:
    """Make the tasks that write some tiles of a wave, in their order."""
    job, layout, spec = run.job, run.layout, run.layout.spec
    (mb, nb, kb), streams = layout.tile_shape, layout.streams
    rows: Blocks = wave.rows
    columns: Blocks = wave.columns
    places = {(i - wave.rows.start, j - wave.columns.start): (i, j) for i, j in cells}
    if spec.routine.triangle:
        # A wave takes some of the tiles of the square of all its rows.
        rows = columns = layout.rows_of(wave)
        index = {row: n for n, row in enumerate(rows)}
        places = {(index[i], index[j]): (i, j) for i, j in cells}
    a, b = inputs or read_inputs(job, (mb, nb, kb), rows, columns, streams=streams)
    c = None if job.c is None else read_tiles(job, job.c, (mb, nb), (rows, columns))
    found = None if found is None else _of_wave(found, rows, columns, spec)
    grid = layout.grid_of(wave)
    operands = Operands.of(job, a, b, c)
    tiles = product_array(operands, grid, spec, sorted(places), found)
    return add_writing(tiles, places, run.output, job.mirror)


def _of_wave(found: Findings, rows: Blocks, columns: Blocks, spec: Spec) -> Findings:
    if found.measured is None:
        return found._replace(spec=spec)
    measured: dict[Any, Any] = {}
    for side, blocks in zip(spec.sides, (rows, columns), strict=False):
        own = sorted(i for x, i in found.measured if x == side)
        taken = own[blocks] if isinstance(blocks, slice) else blocks
        measured |= {(side, n): found.measured[side, i] for n, i in enumerate(taken)}
    return found._replace(spec=spec, measured=measured)


def add_writing(
    tiles: LazyTiles, places: dict[Cell, Cell], output: Output, mirror: Mirror | None
) -> LazyTiles:
    """Make the tasks that write tiles; return them as lazy tiles.

    Each carries what it needs: a task that all of them wait for would start when most
    tiles are computed. None is fused with its tile, which would lose its placement.
    """
    name = f"twom-write-{tokenize(tiles.name, places, output, mirror)}"
    tasks = [
        TileTask((name, n, 0), write_tile, TaskRef((tiles.name, *x)), y, output, mirror)
        for n, (x, y) in enumerate(places.items())
    ]
    return _in_a_column(name, tasks, [tiles])


def write_tile(tile: Array, place: Cell, output: Output, mirror: Mirror | None) -> Any:
    """Write a tile, and its image; return a crumb for dask to keep."""
    i, j = place
    on_device = family_of(tile) == "cupy"
    # On a stream of this thread's own, beside what others multiply.
    with portable_errors(), get_engine("cuda").task() if on_device else nullcontext():
        tile = bring_to_host(tile)
    with portable_errors(), at_disk(tile.nbytes):
        output.write(i, j, tile)
        if mirror is not None and i != j:
            output.write(j, i, mirror(tile))
    return _placeholder()


def check_tiles(output: Output, cells: list[Cell]) -> LazyTiles:
    """Make the tasks that read tiles of an earlier run, and remove damaged ones."""
    name = f"twom-check-{tokenize(output, cells)}"
    each = enumerate(cells)
    return _in_a_column(
        name, [Task((name, n, 0), _check_tile, output, x) for n, x in each]
    )


def _in_a_column(name: str, tasks: list[Any], needs: Sequence[Any] = ()) -> LazyTiles:
    """Gather tasks that return crumbs; `needs`: the tiles that they take."""
    graph = HighLevelGraph.from_collections(name, {x.key: x for x in tasks}, needs)
    return LazyTiles(graph, name, ((1,) * len(tasks), (1,)), _placeholder())


def _check_tile(output: Output, cell: Cell) -> Array:
    with portable_errors():
        output.check(*cell)
    return _placeholder()


def _placeholder() -> Array:
    return np.ones((1, 1), np.int8)
