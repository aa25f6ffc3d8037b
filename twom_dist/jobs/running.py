"""Computing the tiles of a wave and writing each as soon as it is there."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..errors import portable_errors
from ..kernels.family import convert
from ..store import Output
from ..tiles.graph import Key, TileTask
from ..tiles.task_spec import TaskRef
from ..typing import Array, Cell
from .arrays import LazyTiles
from .job import Mirror
from .watchdog import Watch, start

# After an error, for a scheduler that may be the reason. Tasks that go on meanwhile do
# no harm: they write what a later run would, or find their array gone.
CANCEL_SECONDS = 1.0
# Called with the index of a tile.
Done = Callable[[int, int], None]


def compute_wave(
    tiles: LazyTiles,
    output: Output,
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
    written = add_writing(tiles, output, mirror)

    def tell(key: Key) -> None:
        done(*places[key[1]])

    if client is None:
        _compute_in_threads(written, threads, tell)
    else:
        _collect(written, client, tell)


def write_tile(tile: Array, place: Cell, output: Output, mirror: Mirror | None) -> Any:
    """Write a tile, and its image; return a crumb for dask to keep."""
    i, j = place
    with portable_errors():
        tile = convert(tile, "numpy")
        output.write(i, j, tile)
        if mirror is not None and i != j:
            output.write(j, i, mirror(tile))
    return np.ones((1, 1), np.int8)


def add_writing(tiles: LazyTiles, output: Output, mirror: Mirror | None) -> Any:
    """Make an array of the tasks that write the tiles, one below the other.

    Each carries what it needs: a task that all of them wait for would have no place,
    and start when most tiles are computed. None is fused with its tile, which would
    lose its place.
    """
    from dask.array.core import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    array, places = tiles
    name = f"twom-write-{tokenize(array.name, list(places), output, mirror)}"
    layer = {}
    for n, (block, place) in enumerate(places.items()):
        key, tile = (name, n, 0), TaskRef((array.name, *block))
        layer[key] = TileTask(key, write_tile, tile, place, output, mirror)
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[array])
    # dask need not know the sizes.
    chunks = ((np.nan,) * len(layer), (np.nan,))
    return Array(graph, name, chunks, dtype=array.dtype)


def _collect(collection: Any, client: Any, done: Callable[[Key], None]) -> None:
    """Call back with the key of each task that is done, and let go of it."""
    from distributed import futures_of

    watch = Watch(client)
    ended: SimpleQueue[Any] = SimpleQueue()
    futures = futures_of(client.persist(collection))
    try:
        for future in futures:
            future.add_done_callback(ended.put)
        for _ in futures:
            future = watch.next_done(ended)
            done(future.key)
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

    pool = ThreadPoolExecutor(threads)
    try:
        with Callback(posttask=count):
            # Not `compute`, whose last task may take a single tile into itself.
            written.persist(scheduler="threads", pool=pool)
    finally:
        # After an error, for the tiles under way.
        pool.shutdown(cancel_futures=True)
