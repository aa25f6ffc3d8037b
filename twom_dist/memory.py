"""Bytes that one task, and one worker, hold while a product runs."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from .tiles.grid import Grid
from .tiles.placement import WorkerGrid
from .tiles.rank_k import Cell, RankSpec
from .tiles.spec import ProductSpec
from .tiles.triangle import TriangleMap

# Share of a worker's memory that encoded tiles, and one task's input panels, may take.
CACHE_SHARE = 0.25
PANEL_SHARE = 0.25
# Of a worker's memory limit: above 0.8 dask pauses it, and the interpreter with its
# libraries takes some 0.25 GB before any data.
USABLE_SHARE = 0.8
# Float64 and int16 temporaries for each entry of a tile whose magnitudes are rounded.
_MAGNITUDE_BYTES = 50


@dataclass(frozen=True)
class WorkerMemory:
    """Predicted bytes on the fullest worker.

    Attributes
    ----------
    inputs : int
        Tiles of A, B and C0 that its C tiles need, received or its own.
    outputs : int
        Its C tiles.
    encoded : int
        Encoded tiles kept for reuse.
    temporaries : int
        Residues, sums and tiles inside the tasks that run side by side.
    """

    inputs: int
    outputs: int
    encoded: int
    temporaries: int

    @property
    def total(self) -> int:
        """Sum of all."""
        return self.inputs + self.outputs + self.encoded + self.temporaries


def _largest_share(sizes: tuple[int, ...], slots: int) -> int:
    """Most rows that a cyclic distribution puts on one of the slots."""
    return max(sum(sizes[slot::slots]) for slot in range(min(slots, len(sizes))))


@dataclass(frozen=True)
class _Tasks:
    """The tasks of a worker.

    `side_by_side` of them at once, each with `encoding` rows of tiles being encoded,
    `products` accumulators and, once these are decoded, `finishing` bytes for each
    entry of its tile.
    """

    grid: Grid
    spec: ProductSpec
    side_by_side: int
    encoding: int
    products: int
    finishing: int

    def predict(self, inputs: int, outputs: int, encoded_rows: int) -> WorkerMemory:
        """Add what is encoded, of so many rows in all, and what the tasks hold."""
        grid, spec = self.grid, self.spec
        mb, nb, kb = max(grid.m), max(grid.n), max(grid.k)
        if spec.native:
            entry = self.products * np.dtype(spec.dtype).itemsize + self.finishing
            return WorkerMemory(inputs, outputs, 0, self.side_by_side * entry * mb * nb)
        planes, products = len(spec.system.planes), spec.system.num_products
        encoded = planes * encoded_rows * sum(grid.k)
        in_flight = self.side_by_side * planes * self.encoding * kb
        # An accumulator is copied before it is added to, and decoded into a new tile.
        copies = (1 if len(grid.panels) == 1 else 2) * self.products
        tile = (copies * products + self.finishing + 4) * mb * nb
        if spec.scaling == "accurate":
            tile += _MAGNITUDE_BYTES * max(mb, nb) * kb + 12 * mb * nb
        kept = min(encoded, spec.cache_bytes)
        temporaries = self.side_by_side * tile + min(in_flight, encoded - kept)
        return WorkerMemory(inputs, outputs, kept, temporaries)


def predict_worker_memory(
    grid: Grid, spec: ProductSpec, slots: WorkerGrid, threads: int
) -> WorkerMemory:
    """Predict what the fullest worker of a pr x pc grid holds.

    Parameters
    ----------
    grid : Grid
    spec : ProductSpec
    slots : WorkerGrid
    threads : int
        Tasks that run side by side on a worker.
    """
    itemsize = np.dtype(spec.dtype).itemsize
    rows = _largest_share(grid.m, slots.pr)
    columns = _largest_share(grid.n, slots.pc)
    outputs = rows * columns * itemsize
    inputs = (rows + columns) * sum(grid.k) * itemsize
    inputs += outputs if spec.beta != 0 else 0
    tasks = _Tasks(
        grid,
        spec,
        threads,
        encoding=max(grid.m) + max(grid.n),
        products=1,
        finishing=itemsize,
    )
    return tasks.predict(inputs, outputs, rows + columns)


def predict_update_memory(
    grid: Grid, spec: RankSpec, triangle: TriangleMap, threads: int
) -> WorkerMemory:
    """Predict what the fullest worker of a triangle holds.

    A mirrored tile is counted beside the tile that it mirrors, the only input of its
    task, so that dask runs the task there. Tiles of zeros are not counted: nobody
    touches their pages.

    Parameters
    ----------
    grid : Grid
        Square: m and n alike.
    spec : RankSpec
    triangle : TriangleMap
    threads : int
        Tasks that run side by side on a worker.
    """
    sizes, k = grid.n, sum(grid.k)
    itemsize = np.dtype(spec.product.dtype).itemsize
    matrices = 2 if spec.two else 1
    tasks = _Tasks(
        grid,
        spec.product,
        threads,
        # A right operand of A times itself is made of a left one.
        encoding=(2 if spec.two else 3) * max(sizes),
        products=matrices,
        finishing=_finishing_bytes(spec, itemsize),
    )
    cells: dict[int, list[Cell]] = defaultdict(list)
    for cell, slot in triangle.slots.items():
        cells[slot].append(cell)
    column = 0 if spec.uplo == "upper" else 1  # of a lower cell, whose mirror it is

    def predict(slot: int) -> WorkerMemory:
        held = sum(sizes[i] for i in triangle.rows_of(slot))
        computed = sum(sizes[i] * sizes[j] for i, j in cells[slot])
        mirrored = sum(sizes[i] * sizes[j] for i, j in cells[slot] if i != j)
        inputs = matrices * held * k + (computed if spec.beta != 0 else 0)
        outputs = computed + (mirrored if spec.uplo == "full" else 0)
        # Left operands of all rows: the right ones of A times itself are made of them.
        right = {cell[column] for cell in cells[slot]}
        encoded = held + (held if spec.two else sum(sizes[j] for j in right))
        return tasks.predict(inputs * itemsize, outputs * itemsize, encoded)

    return max(map(predict, cells), key=lambda memory: memory.total)


def _finishing_bytes(spec: RankSpec, itemsize: int) -> int:
    """Bytes for each entry of a tile while `finish_cell` runs."""
    tiles = 4 if spec.two else 1  # Y_ij, Y_ji, its mirror image, their sum
    if spec.beta == 0:
        return tiles * itemsize
    # Y_ji and the sum; then alpha Y, beta C and their sum in double, and the result.
    double = 2 * 8 if np.dtype(spec.product.dtype).kind == "c" else 8
    return (3 if spec.two else 2) * itemsize + 3 * double
