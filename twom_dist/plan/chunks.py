"""Conversion of shapes and chunks into tile sizes."""

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import PlanError
from ..tiles.grid import Chunks, split_evenly
from ..typing import as_integer

# Side of tiles if no chunks are given, and number of tiles of the result that each
# worker should get: tasks take some 0.1 s or more on one core.
LARGEST_TILE = 2048
TILES_PER_WORKER = 4
# Smaller tiles make tasks too short for dask's overhead on each.
SMALLEST_TILE = 256
# Most tiles of all matrices, if they are smaller than those that are chosen: dask's
# scheduler takes 12 minutes for so many tasks
# (benchmarks/results/scheduler-cpu-zen4.jsonl).
MANY_TILES = 2**20

_NUMBERS = {2: "two", 3: "three"}


def choose_tile(count_cells: Callable[[int], int], workers: int) -> int:
    """Choose a tile size that gives every worker a few tiles of the result."""
    tile = LARGEST_TILE
    wanted = TILES_PER_WORKER * workers if workers > 1 else 1
    while tile > SMALLEST_TILE and count_cells(tile) < wanted:
        tile //= 2
    return tile


def tile_sizes(
    chunks: Any, sizes: dict[str, int], count_cells: Callable[[int], int], workers: int
) -> list[Chunks]:
    """Expand given or chosen chunks into tile sizes along each dimension.

    `sizes`: lengths of the dimensions by name; `count_cells`: number of tiles of the
    result that are computed, as a function of the tile size.
    """
    if chunks is None:
        chunks = choose_tile(count_cells, workers)
    if as_integer(chunks) is not None:
        chunks = (chunks,) * len(sizes)
    if not isinstance(chunks, Sequence) or len(chunks) != len(sizes):
        *names, last = sizes
        raise PlanError(
            f"chunks={chunks!r} is neither a tile size nor {_NUMBERS[len(sizes)]} of "
            f"them, for {', '.join(names)} and {last}",
            "",
            "chunks",
        )
    return [_expand(c, s) for c, s in zip(chunks, sizes.values(), strict=True)]


def _expand(chunk: Any, size: int) -> Chunks:
    tile = as_integer(chunk)
    if tile is not None:
        return cut_evenly(size, tile)
    given = chunk if isinstance(chunk, Sequence) else ()
    sizes = tuple(x for x in map(as_integer, given) if x is not None)
    if not sizes or len(sizes) < len(given) or min(sizes) < 0 or sum(sizes) != size:
        raise PlanError(
            f"chunks={chunk!r} are not whole numbers that add up to {size}",
            "",
            "chunks",
        )
    return sizes


def cut_evenly(size: int, tile: int) -> Chunks:
    """Cut a dimension into even tiles; refuse more than anybody would wait for."""
    if tile < 1:
        raise PlanError(f"chunks={tile}, but a tile has at least one row", "", "chunks")
    if size > MANY_TILES * tile:
        raise PlanError(
            f"a dimension of {size} has more than {MANY_TILES:,} tiles of {tile}",
            "Use larger chunks, or smaller matrices",
            "many-tiles",
        )
    return split_evenly(size, tile)
