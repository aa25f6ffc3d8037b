"""The lazy tiles of a wave, made from the files."""

from typing import Any, NamedTuple

from ..kernels.family import empty_block
from ..lazy import as_dask
from ..plan import Layout, Wave
from ..store import StoredMatrix
from ..tiles.collection import product_array
from ..typing import Cell
from .device_transfer import read_to_device
from .job import Job

_ALL = slice(None)

# Tile indices.
Blocks = slice | list[int]


class LazyTiles(NamedTuple):
    """C tiles of a dask array, not always all of them.

    Attributes
    ----------
    array : dask.array.Array
    places : dict
        Index of a block of the array -> place of the tile among all of C.
    """

    array: Any
    places: dict[Cell, Cell]


def make_tiles(job: Job, layout: Layout, wave: Wave, cells: list[Cell]) -> LazyTiles:
    """Make the lazy C tiles of a wave, to keep those of some cells."""
    spec, dtype, (mb, nb, kb) = layout.spec, job.dtype, layout.tile_shape
    rows: Blocks = wave.rows
    columns: Blocks = wave.columns
    first = wave.rows.start, wave.columns.start
    found = {cell: (cell[0] - first[0], cell[1] - first[1]) for cell in cells}
    if spec.routine.triangle:
        # The tiles of a wave are some of those of the square of all its rows.
        rows = columns = layout.rows_of(wave)
        index = {row: n for n, row in enumerate(rows)}
        found = {(i, j): (index[i], index[j]) for i, j in cells}
    a = _lazy(job, job.a, (mb, kb), (rows, _ALL), spec.op_a)
    b = a if spec.twins else _lazy(job, job.b, (kb, nb), (_ALL, columns), spec.op_b)
    c = None if job.c is None else _lazy(job, job.c, (mb, nb), (rows, columns))
    a, b, c = (None if x is None else as_dask(x, dtype, None) for x in (a, b, c))
    grid = layout.grid_of(wave)
    array = product_array(a, b, c, grid, spec, cells=sorted(found.values()))
    return LazyTiles(array, {place: cell for cell, place in found.items()})


def _lazy(
    job: Job,
    stored: StoredMatrix,
    tile: tuple[int, int],
    blocks: tuple[Blocks, Blocks],
    op: str = "N",
) -> Any:
    """Make a dask array of the blocks of op(stored), in the layout of the file.

    Blocks for the CUDA engine come from the task that reads them, on the device.
    """
    # Whatever back end is configured: arrays of the other one have no `blocks`.
    from dask.array.core import from_array

    if op != "N":
        tile, blocks = tile[::-1], blocks[::-1]
    on_device = job.engine == "cuda"
    whole = from_array(
        stored,
        chunks=tile,
        getitem=read_to_device if on_device else None,
        inline_array=True,
        asarray=False,
        meta=empty_block("cupy" if on_device else "numpy", stored.dtype),
    )
    rows, columns = blocks
    part = whole.blocks[rows].blocks[:, columns]
    # The plain name where the part is all: that of every other use of the file.
    return whole if part.numblocks == whole.numblocks else part
