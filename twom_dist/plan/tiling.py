"""Layouts of jobs: tiles, and waves of them that the workers can hold."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from heapq import nsmallest
from itertools import product
from math import lcm
from statistics import median_high
from typing import Any

from ..errors import MemoryLimitError, PlanError
from ..tiles.grid import Chunks, Grid
from ..tiles.placement.grids import worker_grids
from ..tiles.spec import Spec
from ..typing import as_integer
from .chunks import (
    LARGEST_TILE,
    MANY_TILES,
    SMALLEST_TILE,
    TILES_PER_WORKER,
    cut_evenly,
)
from .cluster import Cluster
from .planner import make_plan
from .record import Plan
from .waves import Wave, cut_rectangle, cut_triangle

# mnk up to which one tile is enough: some 0.2 s of work.
SMALL_PRODUCT = 1024**3
# Side of a tile on a GPU: a task takes some 35 ms for k = 32768 at the 127 TF/s that
# tiles of 4096 reach on an H200 (benchmarks/results/gpu.jsonl); dask spends 1 on it.
DEVICE_TILE = 4096
# Number of shapes of waves tried besides those that bisection finds; planning one takes
# some 8 ms.
_TRIED = 50

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Layout:
    """The cut of a job's result into tiles and waves.

    Attributes
    ----------
    spec : Spec
        Parameters of all tasks; it keeps as many encoded tiles as the waves allow.
    grid : Grid
        All tiles; only the last ones of a dimension may be smaller than the others.
    waves : tuple of Wave
    """

    spec: Spec
    grid: Grid
    waves: tuple[Wave, ...]

    @property
    def shape(self) -> Shape:
        """(m, n, k)."""
        return self.grid.shape

    @property
    def tiles(self) -> Shape:
        """(mt, nt, kt); a dimension of 0 is one empty tile."""
        return self.grid.mt, self.grid.nt, self.grid.kt

    @property
    def tile_shape(self) -> Shape:
        """(mb, nb, kb) of every tile but the last ones."""
        return max(1, self.grid.m[0]), max(1, self.grid.n[0]), max(1, self.grid.k[0])

    @cached_property
    def num_computed(self) -> int:
        """Number of tiles to compute: all of a product, a triangle of an update."""
        return sum(wave.size for wave in self.waves)

    def rows_of(self, wave: Wave) -> list[int]:
        """List the rows of tiles of A, and of B, that a wave of an update needs."""
        indices = range(self.grid.mt)
        return sorted({*indices[wave.rows], *indices[wave.columns]})

    def grid_of(self, wave: Wave) -> Grid:
        """Return the grid of a wave; for an update, the square of all rows it needs."""
        if self.spec.routine.triangle:
            rows = tuple(self.grid.m[i] for i in self.rows_of(wave))
            return replace(self.grid, m=rows, n=rows)
        m, n = self.grid.m[wave.rows], self.grid.n[wave.columns]
        return replace(self.grid, m=m, n=n)

    def plan(self, wave: Wave, cluster: Cluster) -> Plan:
        """Plan one wave; mirrored tiles are written where they are computed."""
        grid = self.grid_of(wave)
        return _plan_wave(self.spec, (grid.m, grid.n, grid.k), cluster)


def lay_out(
    spec: Spec,
    shape: Shape,
    cluster: Cluster,
    *,
    tile: int | tuple[int, ...] | None = None,
    chunks: Shape = (1, 1, 1),
) -> Layout:
    """Cut a product into tiles, and group them in waves that the workers can hold.

    `tile`: side of a tile, or (mb, nb, kb); by default, if possible, small enough for a
    few tiles on every thread, and for one in each wave. `chunks`: chunks of the files
    along m, n and k.
    """
    spec = replace(spec, lazy=True)
    if isinstance(tile, tuple):
        mb, nb, kb = tile
        return _lay_out_tiles(spec, shape, (mb, nb, kb), cluster)
    for length in shape:
        # Refuse too many tiles before any code counts them one by one.
        cut_evenly(length, LARGEST_TILE)
    if tile is not None:
        tile = _check_tile(tile, shape)
        return _lay_out_tiles(spec, shape, (tile, tile, tile), cluster)
    slots = cluster.workers * cluster.threads
    (m, n, k), triangle = shape, spec.routine.triangle
    # A single tile of an update may cost twice as much as several, on any worker.
    one = m * n * k <= SMALL_PRODUCT or (slots == 1 and not triangle)
    wanted = 1 if one else TILES_PER_WORKER * slots
    side = DEVICE_TILE if spec.engine == "cuda" else LARGEST_TILE
    while True:
        smallest = side <= SMALLEST_TILE
        tile_shape = choose_tile_shape(shape, cluster, side, chunks, square=triangle)
        side //= 2
        mt, nt = map(_count, shape[:2], tile_shape[:2])
        if spec.routine.count_cells(mt, nt) < wanted and not smallest:
            continue
        try:
            layout = _lay_out_tiles(spec, shape, tile_shape, cluster)
        except MemoryLimitError:
            if smallest:
                raise
            continue
        # The first waves of an update, on the diagonal, are larger than the others.
        usual = median_high(wave.size for wave in layout.waves)
        if len(layout.waves) == 1 or usual >= slots or smallest:
            return layout


def _count(length: int, tile: int) -> int:
    return max(1, -(-length // tile))


def cut_sizes(length: int, tile: int) -> Chunks:
    """Return sizes of tiles, only the last smaller, as chunked files require."""
    return tuple(min(tile, length - i * tile) for i in range(_count(length, tile)))


def _check_tile(tile: Any, shape: Shape) -> int:
    """Return a tile size; refuse one with more tiles than anybody would wait for."""
    side = as_integer(tile)
    if side is None or side < 1:
        raise PlanError(f"chunks={tile!r} is not a positive integer", "", "tile")

    def count(tile: int) -> int:
        mt, nt, kt = (_count(length, tile) for length in shape)
        return mt * nt + (mt + nt) * kt

    if side < SMALLEST_TILE and count(side) > MANY_TILES:
        sides = range(1, SMALLEST_TILE)
        least = 1 + bisect_left(sides, True, key=lambda t: count(t) <= MANY_TILES)
        raise PlanError(
            f"chunks={side} cuts the matrices into {count(side):,} tiles, and dask "
            "takes some 0.7 ms for each",
            f"Use tiles of {least} or larger ones",
            "many-tiles",
        )
    return side


def choose_tile_shape(
    shape: Shape,
    cluster: Cluster,
    tile: int,
    chunks: Shape = (1, 1, 1),
    *,
    square: bool = False,
) -> Shape:
    """Return even (mb, nb, kb), mb and nb at most `tile`: equally many on each worker.

    A tile that can hold a whole chunk of a file cuts none: a chunk is read whole for
    every tile that has a part of it. `square`: mb = nb, for an update, whose triangle
    no grid of workers shares evenly.
    """
    grid = min(worker_grids(cluster.workers), key=lambda g: abs(g.pr - g.pc))
    slots = (1, 1, 1) if square else (grid.pr, grid.pc, 1)
    # Small tiles get long rows: there are fewer tasks, and kernels prefer a long k.
    largest = (tile, tile, min(max(tile, LARGEST_TILE), 4 * tile))
    mb, nb, kb = (
        _align(_even_tile(*sizes), chunk, sizes[1])
        for chunk, *sizes in zip(chunks, shape, largest, slots, strict=True)
    )
    return mb, nb, kb


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
    """Round a tile up to a multiple of a chunk, or down, if one fits; else keep it.

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


def _lay_out_tiles(
    spec: Spec, shape: Shape, tile_shape: Shape, cluster: Cluster
) -> Layout:
    """Lay out tiles in the largest waves that fit, shaped to read A and B little."""
    m, n, k = map(cut_sizes, shape, tile_shape)
    mt, nt = len(m), len(n)

    def fits(rows: int, columns: int) -> bool:
        chunks = m[:rows], n[:columns], k
        try:
            plan = make_plan(spec, chunks, cluster, mirrors=False)
        except MemoryLimitError:
            return False
        # A wave without room for encoded tiles would encode them again and again.
        return plan.cache_bytes == cluster.memory.cache_bytes

    if spec.routine.triangle:
        # A tile off the diagonal needs two rows of op(A).
        least = nt if 0 in shape else min(2, nt)
        larger = range(least + 1, nt + 1)
        rows = columns = least + bisect_left(larger, True, key=lambda w: not fits(w, w))
        cut = partial(cut_triangle, nt, rows, upper=spec.uplo == "upper")
    else:
        rows, columns = mt, nt
        if 0 not in shape:
            rows, columns = _choose_wave(mt, nt, shape, fits)
        cut = partial(cut_rectangle, mt, nt, rows, columns)
    waves = _count(mt, rows) * _count(nt, columns)
    if waves > MANY_TILES:
        raise MemoryLimitError(
            f"the workers hold so little of the inputs that {waves:,} waves are needed",
            "Give each more memory",
            "many-waves",
        )
    found = _plan_wave(spec, (m[:rows], n[:columns], k), cluster)
    grid = Grid(m, n, k, found.grid.panels)
    return Layout(found.spec, grid, tuple(cut()))


def _plan_wave(
    spec: Spec, chunks: tuple[Chunks, Chunks, Chunks], cluster: Cluster
) -> Plan:
    """Plan a wave; the smallest possible one may take more memory than others."""
    try:
        return make_plan(spec, chunks, cluster, mirrors=False)
    except MemoryLimitError:
        stretched = replace(cluster, memory=cluster.memory.stretch())
        return make_plan(spec, chunks, stretched, mirrors=False)


def _choose_wave(
    mt: int, nt: int, shape: Shape, fits: Callable[[int, int], bool]
) -> tuple[int, int]:
    """Choose rows and columns of waves that read little; (1, 1) if none fits.

    A is read once for every column of waves, B once for every row of them. For each
    number of rows, bisection finds the most columns that fit. Larger waves may fit,
    too, since fitting is not monotonic: a few that read less are tried, the whole
    result first.
    """
    m, n, _ = shape
    rows, columns = (sorted(_wave_sides(count)) for count in (mt, nt))

    def reads(c: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
        return m * _count(nt, c[1]) + n * _count(mt, c[0]), -c[0] * c[1], c

    def widest(height: int) -> int:
        return bisect_left(columns, True, key=lambda width: not fits(height, width))

    # If the smallest wave does not fit, none does.
    if not fits(1, 1):
        return 1, 1
    counts = ((height, widest(height)) for height in rows)
    found = min(((x, columns[count - 1]) for x, count in counts if count), key=reads)
    better = [c for c in product(rows, columns) if reads(c) < reads(found)]
    fewer = nsmallest(_TRIED, better, key=reads)
    return next((c for c in fewer if fits(*c)), found)


def _wave_sides(count: int) -> Iterator[int]:
    yield from {_count(count, waves) for waves in range(1, count + 1)}
