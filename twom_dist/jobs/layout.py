"""Tiles and waves of a job: what is computed at once, and in which pieces."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..errors import MemoryLimitError, PlanError
from ..plan import Cluster, choose_tile, plan_gemm
from ..tiles.grid import Chunks

# Of a worker's memory: above, dask writes to disk what it could use at once
# (distributed.worker.memory.target).
WAVE_SHARE = 0.6


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


def _count(length: int, tile: int) -> int:
    return max(1, -(-length // tile))


def _sizes(length: int, tile: int) -> Chunks:
    """Sizes of tiles of which only the last may be smaller, as chunked files ask."""
    return tuple(min(tile, length - i * tile) for i in range(_count(length, tile)))


def choose_tile_shape(
    shape: tuple[int, int, int], workers: int, tile: int | None
) -> tuple[int, int, int]:
    """Return (mb, nb, kb): the tile given, or a few even ones for every worker.

    Parameters
    ----------
    shape : (m, n, k)
    workers : int
        Threads of all workers together.
    tile : int or None

    Examples
    --------
    >>> choose_tile_shape((3072, 3000, 2500), 2, None)
    (1024, 1000, 834)
    """
    if tile is None:
        largest = choose_tile(shape[0], shape[1], workers)
        mb, nb, kb = (-(-size // _count(size, largest)) for size in shape)
        return max(1, mb), max(1, nb), max(1, kb)
    if isinstance(tile, bool) or not isinstance(tile, int) or tile < 1:
        raise PlanError(f"tile={tile!r} given; a tile is an integer of 1 or more")
    return tile, tile, tile


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

    The waves are as large as fits, in the shape that reads A and B the fewest times.

    Parameters
    ----------
    shape : (m, n, k)
    dtype : dtype
        Of the product.
    cluster : Cluster
    tile : int, optional
        Side of a tile; chosen where left out.
    beta, **options
        As in `gemm`.

    Raises
    ------
    MemoryLimitError
        Where not even one tile of C fits.
    """
    tile_shape = choose_tile_shape(shape, cluster.workers * cluster.threads, tile)
    m, n, k = map(_sizes, shape, tile_shape)
    mt, nt = len(m), len(n)
    if 0 in shape:
        return Layout(shape, tile_shape, tuple(_cut(mt, nt, mt, nt)))
    share = cluster
    if cluster.memory is not None:
        share = replace(cluster, memory=int(cluster.memory * WAVE_SHARE))

    def check(rows: int, columns: int, within: Cluster) -> None:
        chunks = m[:rows], n[:columns], k
        m_part, n_part = sum(chunks[0]), sum(chunks[1])
        plan_gemm(
            (m_part, shape[2]),
            (shape[2], n_part),
            dtype=dtype,
            chunks=chunks,
            workers=within.workers,
            threads_per_worker=within.threads,
            worker_memory=within.memory,
            beta=beta,
            **options,
        )

    # Accurate exponents come from the whole of C.
    whole = options.get("scaling") == "accurate"
    for rows, columns in [(mt, nt)] if whole else _wave_shapes(mt, nt, shape):
        try:
            check(rows, columns, share)
        except MemoryLimitError:
            continue
        return Layout(shape, tile_shape, tuple(_cut(mt, nt, rows, columns)))
    rows, columns = (mt, nt) if whole else (1, 1)
    check(rows, columns, cluster)
    return Layout(shape, tile_shape, tuple(_cut(mt, nt, rows, columns)))


def _wave_shapes(
    mt: int, nt: int, shape: tuple[int, int, int]
) -> list[tuple[int, int]]:
    """Rows and columns of possible waves, those that read the least first."""
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
