"""Tiles and waves of a job: what is computed at once, and in which pieces."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..errors import MemoryLimitError, PlanError
from ..plan import LARGEST_TILE, SMALLEST_TILE, TILES_PER_WORKER, Cluster, plan_gemm
from ..tiles.grid import Chunks
from ..tiles.placement import worker_grids

# Of a worker's memory: above, dask writes to disk what it could use at once
# (distributed.worker.memory.target).
WAVE_SHARE = 0.6
# mnk up to which one tile is enough: some 0.2 s of work.
SMALL_PRODUCT = 1024**3


@dataclass(frozen=True)
class Wave:
    """A rectangle of C tiles, computed before the next one starts.

    Attributes
    ----------
    rows, columns : slice
        Half-open ranges of tile indices.
    """

    rows: slice
    columns: slice

    @property
    def size(self) -> int:
        """Number of tiles."""
        rows, columns = self.rows, self.columns
        return int((rows.stop - rows.start) * (columns.stop - columns.start))


@dataclass(frozen=True)
class Layout:
    """How a product is cut.

    Attributes
    ----------
    shape, tile_shape : tuple of int
        (m, n, k), and (mb, nb, kb): every tile but the last ones is of that shape.
    waves : tuple of Wave
    """

    shape: tuple[int, int, int]
    tile_shape: tuple[int, int, int]
    waves: tuple[Wave, ...]

    @property
    def tiles(self) -> tuple[int, int, int]:
        """(mt, nt, kt); a dimension of 0 is one empty tile."""
        mt, nt, kt = map(_count, self.shape, self.tile_shape)
        return mt, nt, kt

    def wave_chunks(self, wave: Wave) -> tuple[Chunks, Chunks, Chunks]:
        """Tile sizes of a wave along m, n and k."""
        m, n, k = map(_sizes, self.shape, self.tile_shape)
        return m[wave.rows], n[wave.columns], k


def _count(length: int, tile: int) -> int:
    return max(1, -(-length // tile))


def _sizes(length: int, tile: int) -> Chunks:
    """Sizes of tiles of which only the last may be smaller, as chunked files ask."""
    return tuple(min(tile, length - i * tile) for i in range(_count(length, tile)))


def choose_tile_shape(
    shape: tuple[int, int, int], cluster: Cluster, tile: int
) -> tuple[int, int, int]:
    """Return (mb, nb, kb), even, mb and nb at most `tile`: as many for every worker.

    Examples
    --------
    >>> choose_tile_shape((3072, 3000, 2500), Cluster(workers=2), 1024)
    (1024, 750, 1250)
    """
    grid = min(worker_grids(cluster.workers), key=lambda g: abs(g.pr - g.pc))
    m, n, k = shape
    return (
        _even_tile(m, tile, grid.pr),
        _even_tile(n, tile, grid.pc),
        # Long rows of small tiles: fewer tasks, and the kernels like a long k.
        _even_tile(k, min(LARGEST_TILE, 4 * tile), 1),
    )


def _even_tile(length: int, largest: int, slots: int) -> int:
    count = _count(length, largest)
    even = -(-count // slots) * slots
    if length >= even * SMALLEST_TILE:
        count = even
    return max(1, -(-length // count))


def local_cluster_of(threads: int) -> Cluster:
    """Describe this process as one worker with all the memory it may use."""
    # Knows the limits of containers, which psutil does not.
    from distributed.system import MEMORY_LIMIT

    return Cluster(1, threads, int(MEMORY_LIMIT))


def lay_out(
    shape: tuple[int, int, int],
    dtype: Any,
    cluster: Cluster,
    *,
    tile: int | None = None,
    beta: complex = 0,
    **options: Any,
) -> Layout:
    """Cut a product into tiles, and those into waves that the workers can hold.

    Parameters
    ----------
    shape : (m, n, k)
    dtype : dtype
        Of the product.
    cluster : Cluster
    tile : int, optional
        Side of a tile. Left out: small enough for a few tiles on every thread, and for
        one of each wave, where that is possible.
    beta : number
        As in `gemm`.
    **options
        As in `gemm`.

    Raises
    ------
    PlanError
        For a tile that is no positive integer.
    MemoryLimitError
        Where not even one tile of C fits.
    """
    options = {"dtype": dtype, "beta": beta, **options}
    if tile is not None:
        if isinstance(tile, bool) or not isinstance(tile, int) or tile < 1:
            raise PlanError(f"tile={tile!r} given; a tile is an integer of 1 or more")
        return _lay_out_tiles(shape, (tile, tile, tile), cluster, options)
    slots = cluster.workers * cluster.threads
    m, n, k = shape
    one = slots == 1 or m * n * k <= SMALL_PRODUCT
    wanted = 1 if one else TILES_PER_WORKER * slots
    side = LARGEST_TILE
    while True:
        smallest = side <= SMALLEST_TILE
        tile_shape = choose_tile_shape(shape, cluster, side)
        side //= 2
        if _count_tiles(shape, tile_shape) < wanted and not smallest:
            continue
        try:
            layout = _lay_out_tiles(shape, tile_shape, cluster, options)
        except MemoryLimitError:
            if smallest:
                raise
            continue
        if len(layout.waves) == 1 or layout.waves[0].size >= slots or smallest:
            return layout


def _count_tiles(shape: tuple[int, int, int], tile_shape: tuple[int, int, int]) -> int:
    return _count(shape[0], tile_shape[0]) * _count(shape[1], tile_shape[1])


def _lay_out_tiles(
    shape: tuple[int, int, int],
    tile_shape: tuple[int, int, int],
    cluster: Cluster,
    options: dict[str, Any],
) -> Layout:
    """Find the largest waves that fit, in the shape that reads A and B the least."""
    m, n, k = map(_sizes, shape, tile_shape)
    mt, nt = len(m), len(n)
    share = cluster
    if cluster.memory is not None:
        share = replace(cluster, memory=int(cluster.memory * WAVE_SHARE))
    # Accurate exponents come from the whole of C.
    whole = 0 in shape or options.get("scaling") == "accurate"
    candidates = [(mt, nt)] if whole else _wave_shapes(mt, nt, shape)
    for rows, columns in candidates:
        try:
            _check_fit((m[:rows], n[:columns], k), share, options)
        except MemoryLimitError:
            continue
        break
    else:
        rows, columns = candidates[-1]
        _check_fit((m[:rows], n[:columns], k), cluster, options)
    return Layout(shape, tile_shape, tuple(_cut(mt, nt, rows, columns)))


def _check_fit(
    chunks: tuple[Chunks, Chunks, Chunks], cluster: Cluster, options: dict[str, Any]
) -> None:
    m, n, k = map(sum, chunks)
    plan_gemm(
        (m, k),
        (k, n),
        chunks=chunks,
        workers=cluster.workers,
        threads_per_worker=cluster.threads,
        worker_memory=cluster.memory,
        **options,
    )


def _wave_shapes(
    mt: int, nt: int, shape: tuple[int, int, int]
) -> list[tuple[int, int]]:
    """Rows and columns of possible waves: those that read the least first, 1 x 1 last.

    A is read once for every column of waves, B once for every row of them.
    """
    m, n, _ = shape
    candidates = [
        (rows, columns)
        for rows in {_count(mt, waves) for waves in range(1, mt + 1)}
        for columns in {_count(nt, waves) for waves in range(1, nt + 1)}
    ]
    return sorted(
        candidates,
        key=lambda c: (m * _count(nt, c[1]) + n * _count(mt, c[0]), -c[0] * c[1], c),
    )


def _cut(mt: int, nt: int, rows: int, columns: int) -> Iterator[Wave]:
    for i in range(0, mt, rows):
        for j in range(0, nt, columns):
            yield Wave(slice(i, min(i + rows, mt)), slice(j, min(j + columns, nt)))
