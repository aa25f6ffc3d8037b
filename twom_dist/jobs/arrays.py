"""The lazy tiles of a wave, made from the files."""

from typing import Any, NamedTuple

from ..errors import portable_errors
from ..kernels.family import convert, empty_block
from ..kernels.registry import get_engine
from ..lazy import as_dask
from ..plan import Layout, Wave
from ..store import StoredMatrix
from ..tiles.collection import product_array
from ..typing import Array, Cell
from .job import Job

_ALL = slice(None)

# Tile indices.
Blocks = slice | list[int]


class LazyTiles(NamedTuple):
    """Blocks of a dask array, not always all of them, and their places in C."""

    array: Any
    places: dict[Cell, Cell]


def make_tiles(job: Job, layout: Layout, wave: Wave, cells: list[Cell]) -> LazyTiles:
    """Make the lazy C tiles of a wave, to keep those of some cells."""
    spec, (mb, nb, kb) = layout.spec, layout.tile_shape
    rows: Blocks = wave.rows
    columns: Blocks = wave.columns
    places = {(i - wave.rows.start, j - wave.columns.start): (i, j) for i, j in cells}
    if spec.routine.triangle:
        # The tiles of a wave are some of those of the square of all its rows.
        rows = columns = layout.rows_of(wave)
        index = {row: n for n, row in enumerate(rows)}
        places = {(index[i], index[j]): (i, j) for i, j in cells}
    a = _lazy(job, job.a, (mb, kb), (rows, _ALL), spec.op_a)
    b = a if spec.twins else _lazy(job, job.b, (kb, nb), (_ALL, columns), spec.op_b)
    c = None if job.c is None else _lazy(job, job.c, (mb, nb), (rows, columns))
    grid = layout.grid_of(wave)
    return LazyTiles(product_array(a, b, c, grid, spec, sorted(places)), places)


def _lazy(
    job: Job,
    stored: StoredMatrix,
    tile: tuple[int, int],
    blocks: tuple[Blocks, Blocks],
    op: str = "N",
) -> Any:
    """Make a dask array of the blocks of op(stored), in the layout of the file."""
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
    part = whole if part.numblocks == whole.numblocks else part
    return as_dask(part, job.dtype, None)


def read_to_device(
    matrix: StoredMatrix,
    index: tuple[slice, slice],
    asarray: bool = False,
    lock: bool = False,
) -> Array:
    """Read one region, as dask's getters do, to the device; the host's copy goes."""
    block = matrix[index]
    # On leaving, the copy is there for every stream.
    with portable_errors(), get_engine("cuda").task():
        return convert(block, "cupy")
