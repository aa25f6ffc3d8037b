"""Sweeps of a GPU: tiles of C that are multiplied side by side, panel by panel of k.

The inputs of a tile's next panel arrive while other tiles are multiplied; and a tile of
A or B is encoded once for all tiles of C that are side by side, then dropped. The sums
of these tiles are held meanwhile. SLATE's gemmC proceeds in the same way.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from typing import NamedTuple

from ..tiles.dask.placement.grids import WorkerGrid
from ..tiles.dask.placement.triangle import TriangleMap
from ..tiles.grid import Grid, Part, cut_inner
from ..tiles.spec import Spec
from ..typing import Cell

# mnk of a panel: 15 ms at the 146 TFLOP/s that tiles of 8192 reach on an H100
# (benchmarks/results/gpu.jsonl), besides 1 ms that dask spends on a task.
PANEL_VOLUME = 2**38
# Steps of a sweep that longer panels leave: the first waits for all of its tiles. So
# 131072 on 64 GPUs takes 0.98 of the time with 8 (`benchmarks/bench_simulation.py`).
STEPS = 4


Sweeps = tuple[tuple[tuple[Cell, ...], ...], ...]  # of each worker, in their order


class Sweep(NamedTuple):
    """Tiles of C of one worker that are multiplied side by side."""

    rows: int
    columns: int
    cells: int  # the tiles that are computed among them
    edges: int  # rows and columns of tiles of A and B that they need

    def held(self, triangle: bool) -> int:
        """Return the tiles of A and B that a task holds if it makes them one by one."""
        return self.edges if triangle else min(self.rows, self.columns) + 1


def tiles_of_panel(mb: int, nb: int, kb: int) -> int:
    """Return the tiles along k that make a task long enough.

    >>> tiles_of_panel(8192, 8192, 8192), tiles_of_panel(4096, 4096, 4096)
    (1, 4)
    """
    return max(1, PANEL_VOLUME // max(1, mb * nb * kb))


def longer_panels(grid: Grid) -> Iterator[Grid]:
    """Yield grids of the longest panels first, then this one."""
    tiles = max(sum(hi - lo for lo, hi in part) for part in grid.parts)
    own, parts = max(hi - lo for lo, hi in grid.panels), len(grid.layers[0])
    for most in range(tiles // STEPS, own, -1):
        yield replace(grid, layers=cut_inner(grid.kt, len(grid.layers), parts, most))
    yield grid


def cut_first(grid: Grid, spec: Spec) -> Grid:
    """Have sweeps begin with one tile along k, which does not await checks of pairs.

    The next task may have to multiply both panels, for which there is room.
    """
    long = all(part[1:] and part[0][1] - part[0][0] > 1 for part in grid.parts)
    if not (grid.sweeps and spec.data_driven and long):
        return grid
    alone = len(grid.parts) == 1  # its last panel is none of a sweep

    def cut(part: Part) -> Part:
        (lo, hi), *rest = part
        end = hi if alone or rest[1:] else rest.pop()[1]
        return (lo, lo + 1), (lo + 1, end), *rest

    layers = tuple(tuple(map(cut, layer)) for layer in grid.layers)
    return replace(grid, layers=layers, early=True)


def list_sweeps(
    grid: Grid, spec: Spec, placement: WorkerGrid | TriangleMap
) -> Iterator[Sweep]:
    """List the possible sweeps of the fullest worker, from all of its tiles to one."""
    if isinstance(placement, TriangleMap):
        slots = {*placement.slots.values()}
        held = max((len(placement.rows_of(slot)) for slot in slots), default=1)
        rows, columns, matrices = held, held, spec.routine.matrices
        cells = spec.routine.count_cells(grid.mt, grid.nt)
        most = ceil(placement.balance * cells / max(1, len(slots)))
    else:
        rows, columns = -(-grid.mt // placement.pr), -(-grid.nt // placement.pc)
        held, matrices, most = rows + columns, 1, rows * columns
    while True:
        edges = matrices * min(rows + columns, held)
        yield Sweep(rows, columns, min(rows * columns, most), edges)
        if rows == columns == 1:
            return
        if rows >= columns:
            rows = -(-rows // 2)
        else:
            columns = -(-columns // 2)


def cut_sweeps(
    grid: Grid,
    spec: Spec,
    placement: WorkerGrid | TriangleMap,
    size: tuple[int, int],
    *,
    streams: bool = False,
) -> Sweeps:
    """Cut the tiles of C of each worker into sweeps of so many rows and columns.

    None where no chain along k has two panels to go by, unless a task makes its inputs.

    >>> from ..tiles.routine import ROUTINES
    >>> grid = Grid((1,) * 2, (1,) * 4, (1, 1), ((((0, 1), (1, 2)),),))
    >>> spec = Spec(ROUTINES["gemm"], "c16", 2, "2m", ())
    >>> cut_sweeps(grid, spec, WorkerGrid(1, 2), (1, 2))
    ((((0, 0), (0, 2)), ((1, 0), (1, 2))), (((0, 1), (0, 3)), ((1, 1), (1, 3))))
    """
    chains = streams or max(map(len, grid.parts)) > 1
    if spec.empty or not chains or size == (1, 1):
        return ()
    held: dict[int, list[Cell]] = defaultdict(list)
    for cell in spec.routine.cells(grid.mt, grid.nt, spec.uplo):
        held[placement.slot(*cell)].append(cell)
    if size[0] < size[1]:
        # A task keeps what it has encoded, or made, of the shorter side.
        for own in held.values():
            own.sort(key=lambda cell: cell[::-1])
    return tuple(_cut_worker(cells, size) for _, cells in sorted(held.items()))


def _cut_worker(
    cells: Sequence[Cell], size: tuple[int, int]
) -> tuple[tuple[Cell, ...], ...]:
    rows, columns = (
        {x: n // most for n, x in enumerate(sorted(set(own)))}
        for own, most in zip(zip(*cells, strict=True), size, strict=True)
    )
    sweeps: dict[Cell, list[Cell]] = defaultdict(list)
    for i, j in cells:
        sweeps[rows[i], columns[j]].append((i, j))
    return tuple(tuple(own) for _, own in sorted(sweeps.items()))


def count_reads(grid: Grid, spec: Spec) -> tuple[float, float]:
    """Return how often tasks that make their inputs make those of A, and of B.

    A tile that is multiplied alone is a sweep, too.
    """
    sweeps = [sweep for own in grid.sweeps for sweep in own]
    if not sweeps:
        return grid.nt, grid.mt
    if spec.routine.triangle:
        each = sum(len({*chain.from_iterable(sweep)}) for sweep in sweeps) / grid.nt
        return each, each
    rows, columns = (
        sum(len({*own}) for own in sides)
        for sides in zip(*(zip(*sweep, strict=True) for sweep in sweeps), strict=True)
    )
    return rows / grid.mt, columns / grid.nt


def planes_bytes(grid: Grid, spec: Spec, edges: int) -> int:
    """Return the bytes of the encoded tiles of a step along k, in so many rows."""
    if spec.native or spec.empty:
        return 0
    return spec.system.plane_bytes * edges * max(*grid.m, *grid.n) * max(grid.k)
