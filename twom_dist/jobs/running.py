"""Computing the tiles of a wave and writing each as soon as it is there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..kernels.family import family_of
from ..store import MatrixWriter
from ..tiles.graph import Key, TileTask
from ..tiles.task_spec import Alias, Task, TaskRef
from .arrays import LazyTiles
from .device_transfer import to_host
from .watchdog import Watch, start
from .writing import Mirror, stop_writes, write_tile

# After an error, for scheduler and workers that may be the reason.
CANCEL_SECONDS = 10.0
STOP_SECONDS = 70.0
# Called with the index of a tile.
Done = Callable[[int, int], None]


def compute_wave(
    tiles: LazyTiles,
    writer: MatrixWriter,
    client: Any,
    threads: int,
    done: Done,
    mirror: Mirror | None = None,
) -> None:
    """Compute the lazy tiles of one wave and write each.

    Parameters
    ----------
    tiles : LazyTiles
    writer : MatrixWriter
    client : distributed.Client or None
        None computes with threads of this process.
    threads : int
        Of this process.
    done : callable
    mirror : callable, optional
        Makes of a tile that of the other triangle, to be written as well.
    """
    places = list(tiles.places.values())
    if client is None:
        written = _write_tasks(tiles, writer, mirror)
        _compute_in_threads(written, threads, lambda key: done(*places[key[1]]))
    elif writer.concurrent:
        written = _write_tasks(tiles, writer, mirror)
        # A tile that is written need not be fetched as well.
        _collect(written, client, lambda key, _: done(*places[key[1]]))
    else:

        def write(key: Key, fetch: Callable[[], Any]) -> None:
            place = places[key[1]]
            write_tile(fetch(), writer, place, mirror)
            done(*place)

        _collect(_gather_tiles(tiles), client, write)


def _write_tasks(tiles: LazyTiles, writer: MatrixWriter, mirror: Mirror | None) -> Any:
    """Make one task ``twom-write`` for every tile, that leaves next to nothing."""
    from dask.base import tokenize

    name = f"twom-write-{tokenize(writer, tiles.array.name, list(tiles.places))}"
    # Each carries the writer: as a task of its own that all wait for, it would have no
    # place, and start when most tiles are computed. What dask does not fuse, either:
    # the scheduler would not know fused products, which have a place.
    layer = {
        (name, n, 0): TileTask(
            (name, n, 0),
            write_tile,
            TaskRef((tiles.array.name, *block)),
            writer,
            place,
            mirror,
        )
        for n, (block, place) in enumerate(tiles.places.items())
    }
    return _stack_tasks(layer, name, [tiles.array], np.int8)


def _gather_tiles(tiles: LazyTiles) -> Any:
    """Make an array of the wanted tiles alone, on the host.

    Who gathers them may have no GPU.
    """
    from dask.base import tokenize

    source = tiles.array
    name = f"twom-gather-{tokenize(source.name, list(tiles.places))}"
    keys = {(name, n, 0): (source.name, *x) for n, x in enumerate(tiles.places)}
    layer: dict[Key, Any]
    if family_of(source._meta) == "cupy":
        layer = {key: Task(key, to_host, TaskRef(tile)) for key, tile in keys.items()}
    else:
        layer = {key: Alias(key, tile) for key, tile in keys.items()}
    return _stack_tasks(layer, name, [source], source.dtype)


def _stack_tasks(
    layer: dict[Key, Any], name: str, sources: list[Any], dtype: Any
) -> Any:
    """Make an array of tasks, one below the other, whose sizes dask need not know."""
    from dask.array.core import Array
    from dask.highlevelgraph import HighLevelGraph

    graph = HighLevelGraph.from_collections(name, layer, dependencies=sources)
    chunks = ((np.nan,) * len(layer), (np.nan,))
    return Array(graph, name, chunks, dtype=dtype)


def _collect(
    collection: Any, client: Any, take: Callable[[Key, Callable[[], Any]], None]
) -> None:
    """Call back with the key of each block that is done, and let go of the block.

    `take` also gets what fetches the block.
    """
    from distributed import futures_of

    watch = Watch(client)
    watch.check_connection()
    done: SimpleQueue[Any] = SimpleQueue()
    futures = futures_of(client.persist(collection))
    try:
        for future in futures:
            future.add_done_callback(done.put)
        for _ in futures:
            future = watch.next_done(done)
            if future.status == "error":
                watch.gather(future)
            take(future.key, partial(watch.gather, future))
            # The workers may forget the tile now.
            future.release()
    except BaseException:
        with suppress(Exception):
            start(client.cancel, futures, force=True).result(CANCEL_SECONDS)
        raise


def _compute_in_threads(
    written: Any, threads: int, done: Callable[[Key], None]
) -> None:
    from dask.callbacks import Callback

    def count(key: Any, *_: Any) -> None:
        if isinstance(key, tuple) and key[0] == written.name:
            done(key)

    with Callback(posttask=count):
        # Not `compute`, whose last task may take a single tile into itself.
        written.persist(scheduler="threads", num_workers=threads)


@contextmanager
def stopping_writes(writer: MatrixWriter, client: Any) -> Iterator[None]:
    """After an error, return to it only when no worker writes any more."""
    temporary = writer.draft.temporary
    try:
        yield
    except BaseException:
        # The error that is under way says more than one from a cluster gone wrong.
        with suppress(Exception):
            if client is not None and client.status == "running":
                stopping = start(client.run, stop_writes, temporary, on_error="ignore")
                stopping.result(STOP_SECONDS)
        stop_writes(temporary)
        raise
