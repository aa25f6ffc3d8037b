"""The lazy tiles of a wave, made from the files."""

from typing import Any, NamedTuple

import dask

from .. import rank_k
from ..blas import gemm
from ..kernels.family import empty_block
from ..store import StoredMatrix
from ..tiles.placement import Cell
from .device_transfer import DeviceMatrix
from .job import Job
from .layout import Layout
from .waves import Wave

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
    make = _make_product if job.routine == "gemm" else _make_update
    # The waves were made to fit with these, which the whole memory would exceed.
    budgets = {
        "twom-dist.cache-bytes": layout.cache_bytes,
        "twom-dist.panel-bytes": layout.panel_bytes,
    }
    with dask.config.set(budgets):
        return make(job, layout, wave, cells)


def _make_product(job: Job, layout: Layout, wave: Wave, cells: list[Cell]) -> LazyTiles:
    mb, nb, kb = layout.tile_shape
    rows, columns = wave.rows, wave.columns
    a = _lazy(job, job.a, (mb, kb), (rows, _ALL), job.scalars["op_a"])
    b = _lazy(job, job.b, (kb, nb), (_ALL, columns), job.scalars["op_b"])
    c = None if job.c is None else _lazy(job, job.c, (mb, nb), (rows, columns))
    product = gemm(a, b, c, **job.scalars, **job.options)
    places = {(i - rows.start, j - columns.start): (i, j) for i, j in cells}
    return LazyTiles(product, places)


def _make_update(job: Job, layout: Layout, wave: Wave, cells: list[Cell]) -> LazyTiles:
    """Take the tiles of a wave from the update of the rows that it needs."""
    (_, nb, kb), indices = layout.tile_shape, range(layout.tiles[0])
    rows = sorted({*indices[wave.rows], *indices[wave.columns]})
    operands = [
        _lazy(job, x, (nb, kb), (rows, _ALL), job.scalars["op"]) for x in job.operands
    ]
    c = None if job.c is None else _lazy(job, job.c, (nb, nb), (rows, rows))
    update = getattr(rank_k, job.routine)(*operands, c, **job.scalars, **job.options)
    found = {row: index for index, row in enumerate(rows)}
    return LazyTiles(update, {(found[i], found[j]): (i, j) for i, j in cells})


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
        DeviceMatrix(stored) if on_device else stored,
        chunks=tile,
        inline_array=True,
        asarray=False,
        meta=empty_block("cupy" if on_device else "numpy", stored.dtype),
    )
    rows, columns = blocks
    part = whole.blocks[rows].blocks[:, columns]
    # The plain name where the part is all: that of every other use of the file.
    return whole if part.numblocks == whole.numblocks else part
