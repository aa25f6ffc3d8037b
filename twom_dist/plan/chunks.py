"""Conversion of shapes and chunks into tile sizes."""

from collections.abc import Callable, Sequence
from math import lcm
from typing import Any

from ..errors import PlanError
from ..tiles.dask.placement.grids import worker_grids
from ..tiles.grid import Chunks, split_evenly
from ..tiles.spec import Spec
from ..typing import as_integer
from .cluster import Cluster

# Side of tiles if no chunks are given, and number of tiles of the result that each
# worker should get: tasks take about 0.1 s or more on one core.
LARGEST_TILE = 2048
TILES_PER_WORKER = 4
# Side of a tile on a GPU: a task takes 35 ms for k = 32768 at the 127 TFLOP/s that
# tiles of 4096 reach on an H200 (benchmarks/results/gpu.jsonl); dask spends 1 on it.
DEVICE_TILE = 4096
SMALLEST_TILE = 256  # smaller tiles make tasks too short for dask's overhead on each
# Most tiles of all matrices, if they are smaller than those that are chosen: dask's
# scheduler takes 12 minutes for so many tasks
# (benchmarks/results/scheduler-cpu-zen4.jsonl).
MANY_TILES = 2**20
_MOST_TILES = 2**30  # of those that are chosen, for which it takes a week
# Longest side of a chunk that is made a tile where memory permits.
LONGEST_CHUNK = 4 * LARGEST_TILE
_MOST_PARTS = 10_000  # of a chunk that are tried, one after the other, for an even one

Shape = tuple[int, int, int]
_NUMBERS = {2: "two", 3: "three"}


def _halve(side: int) -> list[int]:
    """List a side, its half and so on, down to the smallest tile."""
    return [side, *_halve(side // 2)] if side > SMALLEST_TILE else [side]


def tile_sizes(
    chunks: Any, sizes: dict[str, int], count_cells: Callable[[int], int], workers: int
) -> list[Chunks]:
    """Expand given or chosen chunks into tile sizes along each dimension.

    Chosen ones give every worker a few tiles of the result. Where no size does, workers
    share k, and tiles along k count as well. `sizes`: lengths of the dimensions by
    name; `count_cells`: number of tiles of the result that are computed, as a function
    of the tile size.
    """
    if chunks is None:
        cells = TILES_PER_WORKER * workers if workers > 1 else 1
        tiles, k = _halve(LARGEST_TILE), sizes["k"]
        enough = (x for x in tiles if count_cells(x) >= cells)
        shared = (x for x in tiles if count_cells(x) * -(-k // x) >= cells)
        chunks = next(enough, next(shared, SMALLEST_TILE))
    if as_integer(chunks) is not None:
        chunks = (chunks,) * len(sizes)
    if not isinstance(chunks, Sequence) or len(chunks) != len(sizes):
        *names, last = sizes
        wanted = f"{_NUMBERS[len(sizes)]} of them, for {', '.join(names)} and {last}"
        problem = f"chunks={chunks!r} is neither a tile size nor {wanted}"
        raise PlanError(problem, "", "chunks")
    return [_expand(c, s) for c, s in zip(chunks, sizes.values(), strict=True)]


def _expand(chunk: Any, size: int) -> Chunks:
    tile = as_integer(chunk)
    if tile is not None:
        return cut_evenly(size, tile)
    given = chunk if isinstance(chunk, Sequence) else ()
    sizes = tuple(x for x in map(as_integer, given) if x is not None)
    if not sizes or len(sizes) < len(given) or min(sizes) < 0 or sum(sizes) != size:
        problem = f"chunks={chunk!r} are not whole numbers that add up to {size}"
        raise PlanError(problem, "", "chunks")
    return sizes


def cut_evenly(size: int, tile: int) -> Chunks:
    """Cut a dimension into even tiles; refuse more than anybody would wait for."""
    if tile < 1:
        raise PlanError(f"chunks={tile}, but a tile has at least one row", "", "chunks")
    if size > MANY_TILES * tile:
        problem = f"a dimension of {size} has more than {MANY_TILES:,} tiles of {tile}"
        raise PlanError(problem, "Use larger chunks, or smaller matrices", "many-tiles")
    return split_evenly(size, tile)


def count_tiles(length: int, tile: int) -> int:
    """Count the tiles of a dimension; of an empty one there is one."""
    return max(1, -(-length // tile))


def cut_sizes(length: int, tile: int) -> Chunks:
    """Return sizes of tiles, only the last smaller, as chunked files require."""
    return tuple(min(tile, length - i * tile) for i in range(count_tiles(length, tile)))


def check_shape(shape: Shape) -> None:
    """Refuse what has too many tiles, before any code counts them one by one."""
    for length in shape:
        cut_evenly(length, LARGEST_TILE)
    _check_count(shape, LARGEST_TILE, _MOST_TILES, "Multiply smaller parts of them")


def _check_count(shape: Shape, tile: int, most: int, remedy: str) -> None:
    mt, nt, kt = (count_tiles(length, tile) for length in shape)
    if (count := mt * nt + (mt + nt) * kt) > most:
        problem = f"the matrices have {count:,} tiles of {tile}"
        problem += ", and dask takes about 0.7 ms for each"
        raise PlanError(problem, remedy, "many-tiles")


def check_tile(tile: Any, shape: Shape) -> int:
    """Return a tile size; refuse one with more tiles than anybody would wait for."""
    side = as_integer(tile)
    if side is None or side < 1:
        raise PlanError(f"chunks={tile!r} is not a positive integer", "", "tile")
    if side < SMALLEST_TILE:
        remedy = f"Use tiles of {SMALLEST_TILE}, or leave chunks out"
        _check_count(shape, side, MANY_TILES, remedy)
    return side


def list_tile_shapes(
    spec: Spec, shape: Shape, cluster: Cluster, chunks: Shape, *, square: bool
) -> list[Shape]:
    """List the even shapes (mb, nb, kb) of tiles that are tried, the largest first.

    A tile that can hold a whole chunk of a file cuts none: each tile with a part of it
    reads it whole. `square`: mb = nb, for an update, which no grid shares evenly.
    """
    grid = min(worker_grids(cluster.workers), key=lambda g: abs(g.pr - g.pc))
    slots = (1, 1, 1) if square else (grid.pr, grid.pc, 1)

    def choose(*largest: int) -> Shape:
        mb, nb, kb = (
            _align(_even_tile(*sizes), chunk, sizes[1])
            for chunk, *sizes in zip(chunks, shape, largest, slots, strict=True)
        )
        return mb, nb, kb

    sides = _halve(DEVICE_TILE if spec.engine == "cuda" else LARGEST_TILE)
    # Small tiles get long rows: there are fewer tasks, and kernels prefer a long k.
    shapes = [(x, x, min(max(x, LARGEST_TILE), 4 * x)) for x in sides]
    least = (min(chunk, LONGEST_CHUNK) for chunk in chunks)
    return [choose(*x) for x in ([*map(max, shapes[0], least)], *shapes)]


def halve_k(tile_shape: Shape, chunks: Shape) -> Shape:
    """Return tiles of half of k, in whole chunks or even parts of them.

    They do not make A and B be read more often; half of m and n would double it.
    """
    mb, nb, kb = tile_shape
    half = max(SMALLEST_TILE, -(-kb // 2))
    if half >= kb:
        return tile_shape
    return mb, nb, _align(half, chunks[2], half)


def find_chunks(spec: Spec, a: Any, b: Any) -> Shape:
    """Return the sizes of the stored chunks along m, n and k; 1 if any cut will do."""
    (m, left), (right, n) = (
        (getattr(x, "chunks", None) or (1, 1))[:: 1 if op == "N" else -1]
        for x, op in ((a, spec.op_a), (b, spec.op_b))
    )
    # An update cuts both along the rows of the result.
    rows = (lcm(m, n),) * 2 if spec.routine.triangle else (m, n)
    return (*rows, lcm(left, right))


def _align(tile: int, chunk: int, largest: int) -> int:
    """Round a tile up to a multiple of a chunk, or down, if one fits.

    Of a larger chunk it takes an even part: no tile has parts of two.

    >>> _align(1000, 256, 1024), _align(1000, 300, 1024), _align(512, 1000, 512)
    (1024, 900, 500)
    """
    above = -(-tile // chunk) * chunk
    if above <= largest:
        return above
    # A header may claim any chunk.
    parts = range(-(-chunk // tile), 2 * chunk // tile + 1)[:_MOST_PARTS]
    even = next((chunk // x for x in parts if chunk % x == 0), tile)
    return tile // chunk * chunk or even


def count_chunk_reads(length: int, tile: int, chunk: int) -> float:
    """Return the tiles that have a part of a chunk, on average, along a dimension.

    >>> count_chunk_reads(4000, 500, 1000), count_chunk_reads(4000, 512, 1000)
    (2.0, 2.75)
    """
    tiles, chunks = count_tiles(length, tile), count_tiles(length, chunk)
    # Where a tile and a chunk end together, no chunk is shared.
    together = max(0, length - 1) // lcm(tile, chunk)
    return (tiles + chunks - 1 - together) / chunks


def _even_tile(length: int, largest: int, slots: int) -> int:
    count = count_tiles(length, largest)
    even = -(-count // slots) * slots
    if length >= even * SMALLEST_TILE:
        count = even
    return max(1, -(-length // count))
