"""Tiles and waves of a job: what is computed at once, and in which pieces."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import lcm
from statistics import median_high
from typing import Any

from .. import plan as planning
from ..checks import ROUTINES
from ..config import bytes_setting
from ..errors import MemoryLimitError, PlanError
from ..memory import PANEL_SHARE, USABLE_SHARE
from ..plan import (
    LARGEST_TILE,
    SMALLEST_TILE,
    TILES_PER_WORKER,
    Cluster,
    Plan,
    fit_cache,
)
from ..tiles.grid import Chunks
from ..tiles.placement import worker_grids
from .waves import Wave, cut_rectangle, cut_triangle

# Of the memory that a worker has for a job, for the tiles of a wave, and for those of
# the least wave there is; see `Room.planned`.
WAVE_SHARE = 0.9
LAST_SHARE = USABLE_SHARE
# mnk up to which one tile is enough: some 0.2 s of work.
SMALL_PRODUCT = 1024**3
# Of all matrices, where they are smaller than any that is chosen: dask's scheduler
# takes 12 minutes for so many tasks (benchmarks/results/scheduler-cpu-zen4.jsonl).
MANY_TILES = 2**20
# Side of a tile on a GPU: some 36 ms for k = 32768 at the 123 TF/s of 4096 on an H200
# (benchmarks/results/gpu.jsonl), where dask spends 1 on a task.
DEVICE_TILE = 4096


@dataclass(frozen=True)
class Layout:
    """How a product, or an update, is cut.

    Attributes
    ----------
    shape, tile_shape : tuple of int
        (m, n, k), and (mb, nb, kb): every tile but the last ones is of that shape.
        Those of an update have m = n and mb = nb.
    waves : tuple of Wave
    cache_bytes, panel_bytes : int
        What the waves were planned with: bytes of encoded tiles that a worker may keep,
        and of the input tiles of one task.
    """

    shape: tuple[int, int, int]
    tile_shape: tuple[int, int, int]
    waves: tuple[Wave, ...]
    cache_bytes: int
    panel_bytes: int

    @property
    def tiles(self) -> tuple[int, int, int]:
        """(mt, nt, kt); a dimension of 0 is one empty tile."""
        mt, nt, kt = map(_count, self.shape, self.tile_shape)
        return mt, nt, kt

    @property
    def num_computed(self) -> int:
        """Tiles that are computed: all of a product, a triangle of an update."""
        return sum(wave.size for wave in self.waves)

    def wave_chunks(self, wave: Wave) -> tuple[Chunks, Chunks, Chunks]:
        """Tile sizes of a wave along m, n and k."""
        m, n, k = map(_sizes, self.shape, self.tile_shape)
        return m[wave.rows], n[wave.columns], k


def _count(length: int, tile: int) -> int:
    return max(1, -(-length // tile))


def _sizes(length: int, tile: int) -> Chunks:
    """Sizes of tiles of which only the last may be smaller, as chunked files ask."""
    return tuple(min(tile, length - i * tile) for i in range(_count(length, tile)))


def _check_count(shape: tuple[int, int, int], tile: int) -> None:
    """Refuse to cut matrices into more tiles than anybody would wait for."""

    def count(tile: int) -> int:
        mt, nt, kt = (_count(length, tile) for length in shape)
        return mt * nt + (mt + nt) * kt

    if tile < SMALLEST_TILE and count(tile) > MANY_TILES:
        sides = range(1, SMALLEST_TILE)
        least = 1 + bisect_left(sides, True, key=lambda t: count(t) <= MANY_TILES)
        raise PlanError(
            f"tile={tile} given, which cuts the matrices into {count(tile):,} tiles; "
            f"dask takes some 0.7 ms for each: use tile={least} or a larger one"
        )


def choose_tile_shape(
    shape: tuple[int, int, int],
    cluster: Cluster,
    tile: int,
    chunks: tuple[int, int, int] = (1, 1, 1),
    *,
    square: bool = False,
) -> tuple[int, int, int]:
    """Return (mb, nb, kb), even, mb and nb at most `tile`: as many for every worker.

    `chunks` of the files are cut by no tile that can hold one: each chunk is read whole
    for every tile that it has a part of. `square`: mb = nb, of an update, whose
    triangle no grid of workers shares evenly.

    Examples
    --------
    >>> choose_tile_shape((3072, 3000, 2500), Cluster(workers=2), 1024)
    (1024, 750, 1250)
    """
    grid = min(worker_grids(cluster.workers), key=lambda g: abs(g.pr - g.pc))
    slots = (1, 1, 1) if square else (grid.pr, grid.pc, 1)
    # Long rows of small tiles: fewer tasks, and the kernels like a long k.
    largest = (tile, tile, min(max(tile, LARGEST_TILE), 4 * tile))
    mb, nb, kb = (
        _align(_even_tile(*sizes), chunk, sizes[1])
        for chunk, *sizes in zip(chunks, shape, largest, slots, strict=True)
    )
    return mb, nb, kb


def find_chunks(
    routine: str, a: Any, b: Any, ops: Mapping[str, Any]
) -> tuple[int, int, int]:
    """Sizes of the stored chunks along m, n and k; 1 where any cut will do.

    `ops`: op_a and op_b of gemm, op of an update; "N" where they are left out.
    """
    if routine == "gemm":
        names = ops.get("op_a", "N"), ops.get("op_b", "N")
    else:
        names = ("N", "T") if ops.get("op", "N") == "N" else ("T", "N")
    (m, left), (right, n) = (
        (x.chunks or (1, 1))[:: 1 if op == "N" else -1]
        for x, op in zip((a, b), names, strict=True)
    )
    # Of an update both are cut along the rows of the result.
    rows = (m, n) if routine == "gemm" else (lcm(m, n),) * 2
    return (*rows, lcm(left, right))


def _align(tile: int, chunk: int, largest: int) -> int:
    """Return the multiple of a chunk that is nearest above, or below, if there is one.

    Examples
    --------
    >>> _align(1000, 256, 1024), _align(1000, 300, 1024), _align(200, 256, 200)
    (1024, 900, 200)
    """
    above = -(-tile // chunk) * chunk
    return above if above <= largest else tile // chunk * chunk or tile


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
    routine: str = "gemm",
    tile: int | None = None,
    chunks: tuple[int, int, int] = (1, 1, 1),
    **options: Any,
) -> Layout:
    """Cut a product into tiles, and those into waves that the workers can hold.

    Parameters
    ----------
    shape : (m, n, k)
    dtype : dtype
        Of the product.
    cluster : Cluster
    routine : {"gemm", "herk", "syrk", "her2k", "syr2k"}
        Of the last four a triangle is cut.
    tile : int, optional
        Side of a tile. Left out: small enough for a few tiles on every thread, and for
        one of each wave, where that is possible.
    chunks : tuple of int
        Of the files along m, n and k.
    **options
        beta, uplo and the others, as the routine takes them.

    Raises
    ------
    PlanError
        For a tile that is no positive integer.
    MemoryLimitError
        Where not even one tile of C fits.
    """
    options = {"dtype": dtype, **options}
    if tile is not None:
        if isinstance(tile, bool) or not isinstance(tile, int) or tile < 1:
            raise PlanError(f"tile={tile!r} given; a tile is an integer of 1 or more")
        _check_count(shape, tile)
        return _lay_out_tiles(routine, shape, (tile, tile, tile), cluster, options)
    slots = cluster.workers * cluster.threads
    m, n, k = shape
    update = routine != "gemm"
    # Of an update a single tile may cost twice what several do, on any worker.
    one = m * n * k <= SMALL_PRODUCT or (slots == 1 and not update)
    wanted = 1 if one else TILES_PER_WORKER * slots
    side = DEVICE_TILE if options.get("engine") == "cuda" else LARGEST_TILE
    while True:
        smallest = side <= SMALLEST_TILE
        tile_shape = choose_tile_shape(shape, cluster, side, chunks, square=update)
        side //= 2
        mt, nt = map(_count, shape[:2], tile_shape[:2])
        if (mt * (mt + 1) // 2 if update else mt * nt) < wanted and not smallest:
            continue
        try:
            layout = _lay_out_tiles(routine, shape, tile_shape, cluster, options)
        except MemoryLimitError:
            if smallest:
                raise
            continue
        # Of an update the first waves, on the diagonal, are larger than the others.
        usual = median_high(wave.size for wave in layout.waves)
        if len(layout.waves) == 1 or usual >= slots or smallest:
            return layout


def _lay_out_tiles(
    routine: str,
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
        share = replace(cluster, memory=max(1, int(cluster.memory * WAVE_SHARE)))

    def fits(rows: int, columns: int) -> bool:
        try:
            plan = plan_wave(routine, (m[:rows], n[:columns], k), share, **options)
        except MemoryLimitError:
            return False
        # Without room for encoded tiles a wave would encode them again and again.
        return plan.cache_bytes == fit_cache(share)

    # Accurate exponents come from the whole of C.
    whole = 0 in shape or options.get("scaling") == "accurate"
    if routine == "gemm":
        candidates = [(mt, nt)] if whole else _wave_shapes(mt, nt, shape)
        rows, columns = candidates[-1]
        # Where the least does not fit, none does: there may be thousands.
        if fits(rows, columns):
            rows, columns = next(c for c in candidates if fits(*c))
        cut = partial(cut_rectangle, mt, nt, rows, columns)
    else:
        # A tile off the diagonal takes two rows of op(A).
        least = nt if whole else min(2, nt)
        larger = range(least + 1, nt + 1)
        rows = least + bisect_left(larger, True, key=lambda w: not fits(w, w))
        columns = rows
        cut = partial(cut_triangle, nt, rows, upper=options.get("uplo") == "upper")
    wave = m[:rows], n[:columns], k
    try:
        plan = plan_wave(routine, wave, share, **options)
    except MemoryLimitError:
        # The least that there is may take what dask would write to disk.
        share = cluster
        plan = plan_wave(routine, wave, share, **options)
    panel_bytes = bytes_setting("panel-bytes")
    if share.memory is not None:
        panel_bytes = min(panel_bytes, int(share.memory * PANEL_SHARE) // share.threads)
    return Layout(shape, tile_shape, tuple(cut()), plan.cache_bytes, panel_bytes)


def plan_wave(
    routine: str,
    chunks: tuple[Chunks, Chunks, Chunks],
    cluster: Cluster,
    **options: Any,
) -> Plan:
    """Plan the tiles of one wave.

    Parameters
    ----------
    routine : str
    chunks : tuple of tuple of int
        Tile sizes along m, n and k.
    cluster : Cluster
    **options
        As in `lay_out`.

    Returns
    -------
    Plan
        Of an update: of the triangle of these rows, and of nothing else. Where all of
        C is wanted, tiles are mirrored as they are written: no worker holds the images.
    """
    m, n, k = map(sum, chunks)
    options |= {
        "workers": cluster.workers,
        "threads_per_worker": cluster.threads,
        "worker_memory": cluster.memory,
    }
    make: Callable[..., Plan] = getattr(planning, f"plan_{routine}")
    update = ROUTINES.get(routine)
    if update is None:
        return make((m, k), (k, n), chunks=chunks, **options)
    uplo = options.get("uplo", "full")
    options["uplo"] = "lower" if uplo == "full" else uplo
    shapes = [(n, k)] * (2 if update.two else 1)
    plan = make(*shapes, chunks=chunks[1:], **options)
    other_triangle = len(chunks[1]) * (len(chunks[1]) - 1) // 2
    return replace(plan, uplo=uplo, num_tasks=plan.num_tasks - other_triangle)


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
