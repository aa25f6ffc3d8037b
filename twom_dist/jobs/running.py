"""Computing the tiles of a wave and writing each as soon as it is there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..store import MatrixWriter
from ..tiles.graph import Key, TileTask
from ..tiles.task_spec import TaskRef
from .arrays import LazyTiles
from .watchdog import Watch, start
from .writing import Mirror, bring_tile, stop_writes, write_tile

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
    """Compute the lazy tiles of one wave, write each, and tell of it.

    Without a client, with so many threads of this process. `mirror` makes of a tile
    that of the other triangle, to be written as well.
    """
    places = list(tiles.places.values())
    if client is None or writer.concurrent:
        # A tile that is written need not be fetched as well.
        options = {"writer": writer, "mirror": mirror}
        written = add_tasks(tiles, "twom-write", write_tile, **options)
        if client is None:
            _compute_in_threads(written, threads, lambda key: done(*places[key[1]]))
        else:
            _collect(written, client, lambda key, _: done(*places[key[1]]))
        return

    def write(key: Key, fetch: Callable[[], Any]) -> None:
        place = places[key[1]]
        write_tile(fetch(), place, writer, mirror)
        done(*place)

    # Who gathers tiles may have no GPU.
    _collect(add_tasks(tiles, "twom-gather", bring_tile), client, write)


def add_tasks(
    tiles: LazyTiles, stage: str, function: Callable[..., Any], **options: Any
) -> Any:
    """Add a task to every tile, and make an array of these, one below the other.

    Each carries what it needs: a task that all of them wait for would have no place,
    and start when most tiles are computed. None is fused with its tile, which would
    lose its place.
    """
    from dask.array.core import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    name = f"{stage}-{tokenize(tiles.array.name, list(tiles.places), options)}"
    layer = {
        (name, n, 0): TileTask(
            (name, n, 0),
            function,
            TaskRef((tiles.array.name, *block)),
            place,
            **options,
        )
        for n, (block, place) in enumerate(tiles.places.items())
    }
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[tiles.array])
    # dask need not know the sizes.
    chunks = ((np.nan,) * len(layer), (np.nan,))
    return Array(graph, name, chunks, dtype=tiles.array.dtype)


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
    temporary = writer.temporary
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
