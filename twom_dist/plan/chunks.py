"""Shapes and chunks of a plan, as tile sizes."""

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import PlanError
from ..tiles.grid import Chunks, split_evenly
from ..typing import as_integer

# Tiles of a plan without chunks: large enough for tasks of some 0.1 s and more on one
# core, small enough for a few tiles on each worker.
LARGEST_TILE = 2048
TILES_PER_WORKER = 4
# Below, tasks are too short for what dask spends on each.
SMALLEST_TILE = 256
# Of all matrices, where they are smaller than any that is chosen: dask's scheduler
# takes 12 minutes for so many tasks (benchmarks/results/scheduler-cpu-zen4.jsonl).
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
    """Expand chunks, or choose them, into tile sizes along each dimension.

    `sizes`: lengths of the dimensions by name; `count_cells`: tiles of the result that
    are computed, for a tile size.
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
    """Cut a dimension into even tiles, and refuse more than anybody would wait for."""
    if tile < 1:
        raise PlanError(f"chunks={tile}, but a tile has at least one row", "", "chunks")
    if size > MANY_TILES * tile:
        raise PlanError(
            f"a dimension of {size} has more than {MANY_TILES:,} tiles of {tile}",
            "Use larger chunks, or smaller matrices",
            "many-tiles",
        )
    return split_evenly(size, tile)
