"""Bytes that one task, and one worker, hold while a product runs."""

from dataclasses import dataclass

import numpy as np

from .tiles.grid import Grid
from .tiles.placement import WorkerGrid
from .tiles.spec import ProductSpec

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


def predict_worker_memory(
    grid: Grid, spec: ProductSpec, slots: WorkerGrid, threads: int, cache_bytes: int
) -> WorkerMemory:
    """Predict what the fullest worker of a pr x pc grid holds.

    Parameters
    ----------
    grid : Grid
    spec : ProductSpec
    slots : WorkerGrid
    threads : int
        Tasks that run side by side on a worker.
    cache_bytes : int
        Budget for encoded tiles.
    """
    itemsize = np.dtype(spec.dtype).itemsize
    _, _, k = grid.shape
    rows = _largest_share(grid.m, slots.pr)
    columns = _largest_share(grid.n, slots.pc)
    mb, nb, kb = max(grid.m), max(grid.n), max(grid.k)
    outputs = rows * columns * itemsize
    inputs = (rows + columns) * k * itemsize + (outputs if spec.beta != 0 else 0)
    if spec.native:
        return WorkerMemory(inputs, outputs, 0, threads * 2 * mb * nb * itemsize)
    planes, products = len(spec.system.planes), spec.system.num_products
    encoded = planes * (rows + columns) * k
    in_flight = threads * planes * (mb + nb) * kb
    # An accumulator is copied before it is added to, and decoded into a new tile.
    residues = (1 if len(grid.panels) == 1 else 2) * products * mb * nb
    tile = (itemsize + 4) * mb * nb
    if spec.scaling == "accurate":
        tile += _MAGNITUDE_BYTES * max(mb, nb) * kb + 12 * mb * nb
    kept = min(encoded, cache_bytes)
    return WorkerMemory(
        inputs,
        outputs,
        kept,
        threads * (residues + tile) + min(in_flight, encoded - kept),
    )
