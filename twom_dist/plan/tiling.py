"""Layouts of jobs: tiles, and waves of them that the workers can hold."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from statistics import median_high
from typing import Literal

from ..errors import MemoryLimitError
from ..tiles.grid import Chunks, Grid
from ..tiles.spec import Spec
from ..typing import Cell
from .chunks import (
    MANY_TILES,
    TILES_PER_WORKER,
    Shape,
    check_shape,
    check_tile,
    count_chunk_reads,
    count_tiles,
    cut_sizes,
    halve_k,
    list_tile_shapes,
)
from .cluster import Cluster
from .count import count, count_products
from .planner import check_fit, make_plan
from .record import Plan

SMALL_PRODUCT = 1024**3  # mnk up to which one tile is enough: some 0.2 s of work
# Smaller tiles are read again sooner than dask passes them on: those of 64 x 64 x 20000
# in tiles of 64 took 0.7 s held and 0.3 s read again, .npy in memory, on two cores.
HELD_BYTES = 2**22


@dataclass(frozen=True)
class Wave:
    """C tiles that are computed before the next ones; or one triangle of a square."""

    rows: slice
    columns: slice
    triangle: Literal["lower", "upper"] | None = None

    @property
    def cells(self) -> list[Cell]:
        """Indices of the tiles that are computed."""
        return [
            (i, j)
            for i in range(self.rows.start, self.rows.stop)
            for j in range(self.columns.start, self.columns.stop)
            if self.triangle is None or i == j or (i > j) == (self.triangle == "lower")
        ]

    @property
    def sides(self) -> Cell:
        """Numbers of rows and columns of tiles."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def size(self) -> int:
        """Number of tiles that are computed."""
        high, wide = self.sides
        return high * wide if self.triangle is None else high * (high + 1) // 2


def cut_triangle(count: int, width: int, *, upper: bool) -> Iterator[Wave]:
    """Cut the triangle of count x count tiles into waves of `width` rows of op(A).

    Tile (i, j) needs rows i and j: squares are `width` wide, rectangles half as much.

    >>> [wave.size for wave in cut_triangle(5, 4, upper=False)]
    [10, 1, 2, 2]
    """
    high, wide = max(1, width // 2), width - width // 2
    for top in range(0, count, width):
        strip = slice(top, min(top + width, count))
        yield Wave(strip, strip, "upper" if upper else "lower")
        for i in range(top, strip.stop, high):
            for j in range(0, top, wide):
                rows = slice(i, min(i + high, strip.stop))
                columns = slice(j, min(j + wide, top))
                yield Wave(columns, rows) if upper else Wave(rows, columns)


@dataclass(frozen=True)
class Layout:
    """The cut of a job's result into tiles and waves."""

    spec: Spec  # keeps as many encoded tiles as the waves allow
    grid: Grid  # only the last tiles of a dimension may be smaller than the others
    waves: tuple[Wave, ...]
    streams: bool = False  # whether tasks read inputs, and none of a wave are held

    @property
    def shape(self) -> Shape:
        """(m, n, k)."""
        return self.grid.shape

    @property
    def tile_shape(self) -> Shape:
        """(mb, nb, kb) of every tile but the last ones."""
        return max(1, self.grid.m[0]), max(1, self.grid.n[0]), max(1, self.grid.k[0])

    @cached_property
    def reads(self) -> int:
        """Number of entries of A and B that are read to multiply."""
        (m, n, k), routine = self.shape, self.spec.routine
        sides = [self.grid_of(wave).shape[:2] for wave in self.waves]
        if self.streams:
            # On the diagonal of an update both sides are the same rows, unless scaled.
            twice = len(self.spec.sides) > routine.matrices
            sides = [(m * (self.grid.nt + twice), n * self.grid.mt)]
        return sum(sum(own[: routine.matrices]) for own in sides) * k

    def read_chunks(self, chunks: Shape) -> float:
        """Return how often tiles read each chunk of a file that they cut, at most."""
        sizes = [*zip(self.shape, self.tile_shape, chunks, strict=True)]
        m, n, k = (count_chunk_reads(*size) for size in sizes)
        return max(m, n) * k

    @property
    def reads_once(self) -> bool:
        """True if the analysis, if there is one, leaves the inputs on the workers."""
        mb, nb, kb = self.tile_shape
        tile_bytes = min(mb, nb) * kb * self.spec.input_itemsize
        return len(self.waves) == 1 and not self.streams and tile_bytes >= HELD_BYTES

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
        chunks = grid.m, grid.n, grid.k
        return _plan_wave(self.spec, chunks, cluster, streams=self.streams)

    def plan_all(self, cluster: Cluster, chunks: Shape, itemsize: int) -> Plan:
        """Plan the first wave, and add up all waves, each kind of which is planned.

        `chunks`, `itemsize`: those of files, of which the bytes are read to multiply.
        """
        m, n, reads = self.grid.m, self.grid.n, self.read_chunks(chunks)
        kinds: dict[tuple[Grid, Cell | None], list[Wave]] = defaultdict(list)
        for wave in self.waves:
            beside = None if wave.triangle else wave.sides
            kinds[self.grid_of(wave), beside].append(wave)
        products, plans = count_products(self.grid, self.spec), list[Plan]()
        total = {"num_tasks": 0, "bytes_moved": 0}
        total["num_int8_gemms"], total["int8_operations"] = products
        for (grid, beside), alike in kinds.items():
            plans.append(replace(self.plan(alike[0], cluster), grid=grid))
            tasks = count(grid, self.spec, True, self.streams, beside).tasks
            total["num_tasks"] += len(alike) * tasks
            total["bytes_moved"] += len(alike) * plans[-1].bytes_moved
        total["bytes_read"] = round(self.reads * reads * itemsize)
        for wave in self.waves if self.spec.beta != 0 else ():
            entries = sum(m[i] * n[j] for i, j in wave.cells)
            total["bytes_read"] += entries * self.spec.itemsize
        waves = len(self.waves)
        return replace(plans[0], waves=waves, chunk_reads=reads, total=total)


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
    few tiles on every thread, and for one in each wave. `chunks`: those of files. Of a
    layout that reads the inputs for each tile and one that holds them, the one that
    reads less is taken, or the first; if none fits, the error says what one would need.
    """
    spec = replace(spec, lazy=True)
    check_shape(shape)
    found: list[Layout] = []
    refused: list[MemoryLimitError] = []
    for streams in (True, False):
        try:
            if tile is None:
                layout = _choose(spec, shape, cluster, chunks, streams)
            else:
                tile_shape = _read_tile(tile, shape)
                layout = _lay_out_tiles(spec, shape, tile_shape, cluster, streams)
            found.append(layout)
        except MemoryLimitError as error:
            refused.append(error)
    if not found:
        raise min(refused, key=lambda error: error.needed)
    best = min(found, key=lambda x: x.reads * x.read_chunks(chunks))
    if best.streams and spec.looks:
        # What is analysed first stays on the workers if it fits there.
        with suppress(MemoryLimitError):
            held = _lay_out_tiles(spec, shape, best.tile_shape, cluster, streams=False)
            return held if held.reads_once else best
    return best


def _read_tile(tile: int | tuple[int, ...], shape: Shape) -> Shape:
    # A job that is continued gives all three.
    if isinstance(tile, tuple) and len(tile) == 3:
        mb, nb, kb = tile
        if all(isinstance(x, int) and x > 0 for x in tile):
            return mb, nb, kb
    return (check_tile(tile, shape),) * 3


def _choose(
    spec: Spec, shape: Shape, cluster: Cluster, chunks: Shape, streams: bool
) -> Layout:
    """Choose the largest tiles that fit, and of which every thread gets some.

    Tiles that are held are a few for each thread, in each wave. The smallest of C are
    tried with less and less of k.
    """
    slots = cluster.workers * cluster.threads
    (m, n, k), triangle = shape, spec.routine.triangle
    # A single tile of an update may cost twice as much as several, on any worker.
    one = m * n * k <= SMALL_PRODUCT or (slots == 1 and not triangle)
    wanted = 1 if one else TILES_PER_WORKER * slots

    def lay_out(tile_shape: Shape) -> Layout | None:
        mt, nt, kt = map(count_tiles, shape, tile_shape)
        cells = spec.routine.count_cells(mt, nt)
        # Threads share k where they have no tiles of C.
        if cells * kt < slots if streams else cells < wanted:
            return None
        layout = _lay_out_tiles(spec, shape, tile_shape, cluster, streams)
        # The first waves of an update, on the diagonal, are larger than the others.
        usual = median_high(wave.size for wave in layout.waves)
        enough = streams or len(layout.waves) == 1 or usual >= slots
        return layout if enough else None

    square = streams or triangle
    *larger, smallest = list_tile_shapes(spec, shape, cluster, chunks, square=square)
    for tile_shape in larger:
        for tried in (tile_shape, halve_k(tile_shape, chunks)):
            with suppress(MemoryLimitError):
                if layout := lay_out(tried):
                    return layout
                break
    while (shorter := halve_k(smallest, chunks)) != smallest:
        with suppress(MemoryLimitError):
            return _lay_out_tiles(spec, shape, smallest, cluster, streams)
        smallest = shorter
    return _lay_out_tiles(spec, shape, smallest, cluster, streams)


def _lay_out_tiles(
    spec: Spec, shape: Shape, tile_shape: Shape, cluster: Cluster, streams: bool
) -> Layout:
    """Lay out tiles in the largest waves that fit, shaped to read A and B little.

    Those whose inputs are read again for each of them are one wave.
    """
    m, n, k = map(cut_sizes, shape, tile_shape)
    mt, nt = len(m), len(n)

    def fits(rows: int, columns: int) -> bool:
        plan = make_plan(spec, (m[:rows], n[:columns], k), cluster, job=True)
        # A wave without room for encoded tiles would encode them again and again.
        return plan.fits(leaving=False) and not plan.cramped

    triangle, rows, columns = spec.routine.triangle, mt, nt
    if triangle and not streams:
        # A tile off the diagonal needs two rows of op(A).
        least = nt if 0 in shape else min(2, nt)
        larger = range(least + 1, nt + 1)
        rows = columns = least + bisect_left(larger, True, key=lambda w: not fits(w, w))
    elif 0 not in shape and not streams:
        rows, columns = _choose_wave(mt, nt, shape, fits)
    count = count_tiles(mt, rows) * count_tiles(nt, columns)
    if streams:
        count = spec.routine.count_cells(mt, nt)
    if count > MANY_TILES:
        problem = f"the workers hold so little that the inputs are read {count:,} times"
        raise MemoryLimitError(problem, "Give each more memory", "many-waves")
    plan = _plan_wave(spec, (m[:rows], n[:columns], k), cluster, streams=streams)
    if triangle:
        waves = [*cut_triangle(nt, rows, upper=spec.uplo == "upper")]
    else:
        down = [slice(i, min(i + rows, mt)) for i in range(0, mt, rows)]
        across = [slice(j, min(j + columns, nt)) for j in range(0, nt, columns)]
        waves = [Wave(i, j) for i, j in product(down, across)]
    grid = plan.grid if streams else Grid(m, n, k, plan.grid.layers)
    return Layout(plan.spec, grid, tuple(waves), streams)


def _plan_wave(
    spec: Spec, chunks: tuple[Chunks, Chunks, Chunks], cluster: Cluster, streams: bool
) -> Plan:
    """Plan a wave; the smallest possible one may take more memory than others."""
    plan = make_plan(spec, chunks, cluster, job=True, streams=streams)
    if not plan.fits(leaving=False):
        jobs = cluster.memory.kind in ("job", "device")
        cluster = replace(cluster, memory=replace(cluster.memory, stretched=jobs))
        plan = make_plan(spec, chunks, cluster, job=True, streams=streams)
    return check_fit(plan)


def _choose_wave(
    mt: int, nt: int, shape: Shape, fits: Callable[[int, int], bool]
) -> tuple[int, int]:
    """Choose rows and columns of waves that read little; (1, 1) if none fits.

    A is read once for every column of waves, B once for every row of them. The whole
    result is tried first. For each number of rows, bisection finds the most columns
    that fit.
    """
    m, n, _ = shape
    rows, columns = (
        sorted({count_tiles(count, waves) for waves in range(1, count + 1)})
        for count in (mt, nt)
    )

    def reads(c: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
        return m * count_tiles(nt, c[1]) + n * count_tiles(mt, c[0]), -c[0] * c[1], c

    def widest(height: int) -> int:
        return bisect_left(columns, True, key=lambda width: not fits(height, width))

    # Fitting is not monotonic; but if the smallest wave does not fit, none does.
    if fits(mt, nt) or not fits(1, 1):
        return (mt, nt) if fits(mt, nt) else (1, 1)
    counts = ((height, widest(height)) for height in rows)
    return min(((x, columns[count - 1]) for x, count in counts if count), key=reads)
