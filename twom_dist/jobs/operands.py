"""Tiles of A, B and C: read by separate tasks, or by the tasks that multiply."""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np
from dask.base import DaskMethodsMixin, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ..config import flag_setting
from ..errors import portable_errors
from ..kernels.family import convert, empty_block
from ..kernels.registry import get_engine
from ..plan import share_look
from ..plan.chunks import Shape
from ..problem.integer_valued import find_largest, is_floating
from ..problem.pairs import pack
from ..store import StoredMatrix
from ..tiles.blocks import cast
from ..tiles.dask.placement.grids import WorkerGrid, layer_slots, with_nodes
from ..tiles.dask.placement.input_homes import READER, choose_readers
from ..tiles.dask.placement.triangle import TriangleMap, triangle_map
from ..tiles.dask.task_spec import Task
from ..tiles.integers import part_dtype
from ..tiles.interpreter import Line
from ..tiles.rows import Source
from ..tiles.spec import SIDES, is_straight
from ..typing import Array, Cell, Side
from ..workers.client import list_workers
from .execution import at_disk, persist
from .job import Job
from .run import Run


class LazyTiles(DaskMethodsMixin):
    """Tiles with the keys (name, i, j), made as `dask.array.core.Array` is.

    `source`: what tasks read the tiles from themselves, in which case there are none.
    """

    def __init__(
        self,
        dask: HighLevelGraph,
        name: str,
        chunks: tuple[tuple[int, ...], ...],
        meta: Array,
        source: Source | None = None,
    ) -> None:
        self.dask, self.name, self.chunks, self._meta = dask, name, chunks, meta
        self.source = source

    def __dask_graph__(self) -> HighLevelGraph:
        return self.dask

    def __dask_layers__(self) -> tuple[str]:
        return (self.name,)

    def __dask_keys__(self) -> list[list[tuple[str, int, int]]]:
        rows, columns = (range(len(sizes)) for sizes in self.chunks)
        return [[(self.name, i, j) for j in columns] for i in rows]

    def __dask_tokenize__(self) -> str:
        return self.name

    @staticmethod
    def __dask_optimize__(graph: Any, keys: Any, **_: Any) -> Any:
        return graph.cull(set(flatten(keys)))

    def __dask_postcompute__(self) -> tuple[Any, tuple[()]]:
        return list, ()  # dask asks even where nothing is computed

    def __dask_postpersist__(self) -> tuple[Any, tuple[()]]:
        def rebuild(results: Any, **_: Any) -> LazyTiles:
            graph = HighLevelGraph.from_collections(self.name, results)
            return LazyTiles(graph, self.name, self.chunks, self._meta)

        return rebuild, ()


EVERY = slice(None)

Blocks = slice | list[int]  # tile indices
TilePair = tuple[LazyTiles, LazyTiles]  # of A and B; of A twice for one operand


@dataclass(frozen=True)
class StoredTiles:
    """The tiles of a stored matrix, or some of their rows and columns."""

    stored: StoredMatrix
    tile: Cell
    blocks: tuple[Blocks, Blocks]  # the rows and columns of tiles that are taken
    dtype: np.dtype[Any]  # tiles are promoted to it
    on_device: bool
    # The largest magnitude of integers in floating point, which are all read.
    limit: int | None = None

    def ranges(self, axis: int, n: int | None = None) -> list[slice]:
        """List the rows, or the columns, of all tiles, or of one."""
        size, each = self.stored.shape[axis], self.tile[axis]
        blocks, starts = self.blocks[axis], range(0, max(1, size), each)
        own = range(len(starts))[blocks] if isinstance(blocks, slice) else blocks
        taken = own if n is None else [own[n]]
        return [slice(starts[x], min(starts[x] + each, size)) for x in taken]

    def read(self, i: int, j: int, alone: bool = False) -> Array:
        """Read a tile, to the device if it is wanted there, and promote it.

        `alone`: in a task that does nothing else, next to tasks that compute.
        """
        (rows,), (columns,) = self.ranges(0, i), self.ranges(1, j)
        sides = rows.stop - rows.start, columns.stop - columns.start
        nbytes = math.prod(sides) * self.stored.dtype.itemsize
        with at_disk(nbytes) if alone else nullcontext():
            block = self.stored[rows, columns]
        with portable_errors():
            if self.limit is not None:
                origin = rows.start, columns.start
                find_largest(block, str(self.stored.path), self.limit, origin=origin)
            if self.on_device:
                # On leaving, the copy is there for every stream.
                with get_engine("cuda").task():
                    return cast(_move(block, self.dtype), self.dtype)
        return cast(block, self.dtype)


def _move(block: Array, dtype: np.dtype[Any]) -> Array:
    """Copy a block to the device, which takes pairs for complex numbers, or words."""
    if block.dtype.names is not None and dtype.itemsize == block.itemsize:
        block = block.view(dtype)
    if block.dtype.names is None:
        return convert(block, "cupy")
    kind = part_dtype(block.dtype)
    parts = convert(block.view(kind).reshape(*block.shape, 2), "cupy")
    return pack(parts, kind.str)


def read_inputs(
    job: Job,
    tile: Shape,
    rows: Blocks,
    columns: Blocks,
    *,
    streams: bool = False,
    readers: Mapping[tuple[Line, int], str] | None = None,
) -> TilePair:
    """Make the lazy blocks of rows of op(A) and columns of op(B); for herk A twice.

    `readers`: the worker that reads a tile, by its row and its step along k.
    """
    (mb, nb, kb), spec = tile, job.spec

    def read(stored: StoredMatrix, size: Cell, blocks: Any, side: Side) -> LazyTiles:
        straight = is_straight(side, spec.op(side))

        def reader(key: Any) -> str:
            _, i, s = key if straight else (key[0], key[2], key[1])
            return (readers or {})[(side, i), s]

        notes = None if readers is None else {READER: reader}
        return read_tiles(job, stored, size, blocks, side, streams=streams, notes=notes)

    a = b = read(job.a, (mb, kb), (rows, EVERY), "left")
    if not spec.same_operand:
        b = read(job.b, (kb, nb), (EVERY, columns), "right")
    return a, b


def read_tiles(
    job: Job,
    stored: StoredMatrix,
    tile: Cell,
    blocks: tuple[Blocks, Blocks] = (EVERY, EVERY),
    side: Side | None = None,
    *,
    streams: bool = False,
    notes: dict[str, Any] | None = None,
) -> LazyTiles:
    """Make the lazy blocks of op(stored), in the layout of the file.

    `side`: that of an operand; None for C. `streams`: tasks read them themselves.
    """
    spec, dtype, limit = job.spec, job.dtype, None
    on_device = job.engine == "cuda"
    if side is not None:
        dtype = spec.tile_dtype(side)
        if spec.op(side) != "N":
            tile, blocks = tile[::-1], blocks[::-1]
        if spec.exact and is_floating(stored.dtype):
            limit = job.limits[SIDES.index(side)]
    source = StoredTiles(stored, tile, blocks, np.dtype(dtype), on_device, limit)
    regions = [source.ranges(0), source.ranges(1)]
    # Not the name of a stage: inputs are placed where they are needed.
    name = f"read-{tokenize(stored, regions, np.dtype(dtype), on_device)}"
    keys = () if streams else product([name], *map(range, map(len, regions)))
    layer = {x: Task(x, StoredTiles.read, source, *x[1:], True) for x in keys}
    tasks = MaterializedLayer(layer, annotations=notes)
    graph = HighLevelGraph.from_collections(name, tasks)
    chunks = tuple(tuple(r.stop - r.start for r in side) for side in regions)
    meta = empty_block("cupy" if on_device else "numpy", dtype)
    return LazyTiles(graph, name, chunks, meta, source if streams else None)


def persist_inputs(run: Run, client: Any) -> TilePair | None:
    """Have A and B read for the analysis where they are multiplied, if they fit."""
    if not (run.layout.reads_once and run.layout.spec.looks):
        return None
    readers, tile = _choose_readers(run, client), run.layout.tile_shape
    inputs = read_inputs(run.job, tile, EVERY, EVERY, readers=readers)
    a, b = persist(inputs, client, run.cluster.threads)
    return a, b


def release_inputs(inputs: TilePair | None, client: Any) -> None:
    """Have the workers forget inputs, even if something still refers to them."""
    if inputs is not None and client is not None:
        from distributed import futures_of

        for future in futures_of([*inputs]):
            future.release()


def _choose_readers(run: Run, client: Any) -> Mapping[tuple[Line, int], str] | None:
    """Choose the workers that read tiles, or leave it to dask."""
    layout, spec, cluster = run.layout, run.layout.spec, run.cluster
    listed = list_workers(client) if client else []
    workers = [x["address"] for x in sorted(listed, key=itemgetter("host", "address"))]
    if not flag_setting("placement") or len(workers) < 2:
        return None
    (wave,) = layout.waves
    shape = layout.plan(wave, cluster).worker_grid
    mt, nt = layout.grid.mt, layout.grid.nt
    own = layer_slots(len(workers), len(layout.grid.layers), cluster.node)
    node = min(cluster.node, own) % own
    if shape is None:
        placement: WorkerGrid | TriangleMap = triangle_map(nt, own, node)
    else:
        placement = with_nodes(WorkerGrid(*shape[:2]), node, own, mt, nt)
    grid = share_look(layout.grid, spec, cluster)
    return choose_readers(grid, spec, placement, own, workers)
