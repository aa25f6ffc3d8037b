"""Bytes that the fullest worker holds while a product runs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..kernels.winograd import quarters_bytes
from ..tiles.dask.placement.grids import WorkerGrid
from ..tiles.dask.placement.triangle import TriangleMap
from ..tiles.grid import Grid
from ..tiles.spec import Spec
from .sweeps import Sweep

Placement = WorkerGrid | TriangleMap

PANELS_THERE = 2  # of a sweep on a worker: one is fetched while another is multiplied


@dataclass(frozen=True)
class WorkerMemory:
    """Predicted bytes on the fullest worker."""

    inputs: int  # tiles of A, B and C0 that its C tiles need, received or its own
    outputs: int  # its C tiles
    leaving: int  # those that it holds if each leaves as soon as it is made
    encoded: int  # encoded tiles kept for reuse
    temporaries: int  # residues, sums and tiles inside the tasks that run at once

    @property
    def total(self) -> int:
        """Bytes if all tiles of C stay."""
        return self.inputs + self.outputs + self.encoded + self.temporaries

    @property
    def least(self) -> int:
        """Bytes if tiles of C leave as they are made."""
        return self.total - max(0, self.outputs - self.leaving)


@dataclass(frozen=True)
class Share:
    """One worker's share of a product."""

    inputs: int  # rows of A and columns of B that it needs, stored once each
    computed: int  # entries of the C tiles that it computes
    mirrored: int = 0  # and of their mirror images


def _triangle_shares(grid: Grid, spec: Spec, placement: TriangleMap) -> Iterable[Share]:
    """List the shares of a triangle.

    A mirrored tile counts where the tile lies that it mirrors: that is the only input
    of its task, so that dask runs it there. Tiles of zeros do not count: nothing
    touches their pages.
    """
    period = placement.period
    # For the rows that are placed alike.
    sums = [sum(grid.n[row::period]) for row in range(period)]
    squares = [sum(n * n for n in grid.n[row::period]) for row in range(period)]
    computed: Counter[int] = Counter()
    on_diagonal: Counter[int] = Counter()
    for (i, j), slot in placement.slots.items():
        if i == j:
            # Half of the square of the sum, and half of the tiles on the diagonal.
            computed[slot] += (sums[i] ** 2 + squares[i]) // 2
            on_diagonal[slot] += squares[i]
        else:
            computed[slot] += sums[i] * sums[j]
    for slot, entries in computed.items():
        held = sum(grid.n[i] for i in placement.rows_of(slot))
        yield Share(
            inputs=spec.routine.matrices * held,
            computed=entries,
            mirrored=entries - on_diagonal[slot],
        )


def predict_memory(
    grid: Grid,
    spec: Spec,
    placement: Placement,
    threads: int,
    cache_bytes: int,
    *,
    job: bool = False,
    streams: bool = False,
    sweep: Sweep | None = None,
) -> WorkerMemory:
    """Predict the bytes on the fullest worker while it runs `threads` tasks at once.

    `cache_bytes`: bytes of encoded tiles that it may keep; `job`: whether tasks write
    tiles, and make none of an update's other triangle; `streams`: whether they read
    tiles as they multiply, and no other inputs are held; `sweep`: cells that go along k
    side by side, so that tiles of other workers are dropped after each panel.
    """
    if isinstance(placement, TriangleMap):
        shares = [*_triangle_shares(grid, spec, placement)]
    else:
        # That of the largest alone.
        rows, columns = (
            max(sum(sizes[slot::slots]) for slot in range(min(slots, len(sizes))))
            for sizes, slots in ((grid.m, placement.pr), (grid.n, placement.pc))
        )
        shares = [Share(rows + columns, rows * columns)]
    if job or spec.uplo != "full":
        shares = [replace(share, mirrored=0) for share in shares]
    if streams:
        found = [_predict_stream(grid, spec, x, threads, sweep) for x in shares]
        if job:
            found = [replace(memory, outputs=memory.leaving) for memory in found]
    else:
        found = [_predict(grid, spec, x, threads, cache_bytes, sweep) for x in shares]
    if sweep is not None and not streams:
        passing = _predict_passing(grid, spec, placement, sweep)
        found = [replace(x, inputs=min(x.inputs, passing)) for x in found]
    return max(found, key=lambda memory: memory.total)


def _predict_stream(
    grid: Grid, spec: Spec, share: Share, threads: int, sweep: Sweep | None
) -> WorkerMemory:
    """Predict what running tasks hold, and sums that wait for others."""
    mb, nb, kb = max(grid.m), max(grid.n), max(grid.k)
    edges = threads * (mb + nb) * kb
    # Two tiles are there twice, as they are cast or converted.
    inputs = 2 * edges * spec.input_itemsize
    cells, tile = threads * mb * nb, mb * nb
    outputs, leaving = _predict_outputs(grid, spec, share, threads)
    if sweep is not None:
        more = threads * max(mb, nb) * kb * (sweep.held(spec.routine.triangle) - 2)
        inputs += more * spec.input_itemsize
        edges, cells = edges + more, cells * sweep.cells
        # Sums of cells take the place of their tiles of C, which leave together.
        tiles = cells * spec.itemsize * spec.components
        leaving += tiles
        outputs = max(leaving, outputs - tiles)
    if spec.beta != 0:
        inputs += 2 * cells * spec.itemsize
    count, sums = 2 if spec.routine.sums else 1, 0
    if not (spec.native or spec.empty):
        products = spec.system.entry_bytes
        sums = spec.system.plane_bytes * edges
        # A task reads old sums and makes new ones, and so does a native product.
        sums += (cells + threads * tile) * count * products
        sums += threads * quarters_bytes(mb, nb, kb)
        if len(grid.parts) > 1:
            waiting = share.computed * max(map(len, grid.layers))
            sums += waiting * count * products
    else:
        sums = (cells + threads * tile) * count * spec.itemsize
    inside = sums + threads * tile * _finishing_bytes(spec)
    return WorkerMemory(inputs, outputs, leaving, 0, inside)


def _predict_outputs(
    grid: Grid, spec: Spec, share: Share, threads: int
) -> tuple[int, int]:
    """Return the bytes of all tiles of C, and of those that are on their way.

    Each thread has one that it writes or reduces, besides the next one.
    """
    entry, tile = spec.itemsize * spec.components, max(grid.m) * max(grid.n)
    return (share.computed + share.mirrored) * entry, 2 * threads * tile * entry


def _predict(
    grid: Grid,
    spec: Spec,
    share: Share,
    threads: int,
    cache_bytes: int,
    sweep: Sweep | None,
) -> WorkerMemory:
    chains = threads if sweep is None else max(threads, sweep.cells)
    # A layer has its own share of k.
    k = max(sum(sum(grid.k[x[0][0] : x[-1][1]]) for x in own) for own in grid.layers)
    inputs = 0 if spec.empty else share.inputs * k
    inputs *= spec.input_itemsize
    inputs += share.computed * spec.itemsize if spec.beta != 0 else 0
    mb, nb, kb = max(grid.m), max(grid.n), max(grid.k)
    tile, finishing = mb * nb, _finishing_bytes(spec)
    outputs, leaving = _predict_outputs(grid, spec, share, threads)
    layers = len(grid.layers)
    decoded = -(-chains // layers)  # of a sweep, by a worker of each layer
    if chains > threads and layers > 1:
        outputs = min(outputs, leaving + outputs * decoded // chains)
    elif chains > threads:
        # Sums of cells take the place of their tiles of C.
        sums = chains * tile * spec.itemsize * spec.components
        outputs = max(0, outputs - sums)
    num_products = 2 if spec.routine.sums else 1
    if spec.native or spec.empty:
        entry = num_products * spec.itemsize + finishing
        return WorkerMemory(inputs, outputs, leaving, 0, threads * entry * tile)
    planes, products = spec.system.plane_bytes, spec.system.entry_bytes
    # In A times itself nearly all rows are right operands, too.
    single = spec.routine.matrices == 1
    sides = 2 if single and spec.twin_order is None else 1
    encoded = planes * share.inputs * sides * k
    in_flight = threads * planes * (mb + nb) * kb
    # A panel adds to an accumulator out of place, and decodes it into a new tile.
    in_tasks = threads * (num_products * products + finishing + 4) * tile
    if len(grid.panels) > 1:
        # Those between two panels; on a device with a mark for each entry.
        marks = spec.engine == "cuda"
        in_tasks += chains * num_products * (products + marks) * tile
    in_tasks += threads * spec.made_bytes(mb, nb, kb)
    if len(grid.parts) > 1:
        # Residues of all cells and parts wait to be added; of a sweep, which waits for
        # the one before, those that come from other layers, later those that go there.
        waiting = share.computed * max(map(len, grid.layers))
        if chains > threads:
            waiting = (layers - 1) * decoded * tile
        # And those that arrive.
        waiting += threads * tile
        in_tasks += num_products * products * waiting
    # Each CPU thread holds the quarters of a product, if the product is quartered.
    in_tasks += threads * quarters_bytes(mb, nb, kb)
    kept = min(encoded, cache_bytes)
    # In a sweep tasks multiply what is kept.
    in_flight = min(in_flight, encoded - kept) if sweep is None else in_flight - kept
    in_tasks += max(0, in_flight)
    return WorkerMemory(inputs, outputs, leaving, kept, in_tasks)


def _predict_passing(grid: Grid, spec: Spec, placement: Placement, sweep: Sweep) -> int:
    """Predict the inputs of a worker's own, and those of two panels of a sweep."""
    mb, nb, kb = max(grid.m), max(grid.n), max(grid.k)
    workers = placement.workers * len(grid.layers)
    matrices = spec.routine.matrices if spec.routine.triangle else 1
    lines = matrices * grid.mt + (0 if spec.routine.triangle else grid.nt)
    own = -(-lines * grid.kt // workers)
    if len(grid.strips) == 1:
        # A worker that analyses a row has all of its tiles.
        own = max(own, grid.kt)
    panel = max(hi - lo for lo, hi in grid.panels)
    tiles = own + PANELS_THERE * sweep.edges * panel
    cells = grid.shape[0] * grid.shape[1] * spec.itemsize if spec.beta != 0 else 0
    return tiles * max(mb, nb) * kb * spec.input_itemsize + -(-cells // workers)


def _finishing_bytes(spec: Spec) -> int:
    """Return the bytes for each entry of a tile while a cell is finished."""
    itemsize = spec.itemsize * spec.components
    if not spec.routine.triangle:
        return itemsize
    # S_ij, S_ji, its mirror image and their sum; two components take twice as much.
    tiles = 4 * spec.components if spec.routine.sums else 1
    if spec.beta == 0:
        return tiles * itemsize
    # S_ji and the sum; then alpha S, beta C and their sum in double, and the result.
    double = 2 * 8 if np.dtype(spec.dtype).kind == "c" else 8
    return (3 if spec.routine.sums else 2) * itemsize + 3 * double
