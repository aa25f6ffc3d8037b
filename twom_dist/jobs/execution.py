"""Computing the tiles of a wave and writing each as soon as it is there."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import dask

from ..tiles.graph import Key
from ..typing import Cell
from .disk import Cores
from .tiles import group_size
from .watchdog import Watch, ask, start

# Longest wait to cancel tasks after an error, which may be the scheduler's. Tasks that
# go on do no harm: they write what a later run would, or find their array gone.
CANCEL_SECONDS = 1.0
# Called with the index of a tile.
Done = Callable[[int, int], None]


def compute_wave(
    tasks: Any, cells: list[Cell], client: Any, threads: int, done: Done
) -> None:
    """Run the tasks of tiles on a client, or else in threads, and tell of each tile."""
    size = group_size(len(cells))

    def tell(key: Key) -> None:
        for cell in cells[key[1] * size : (key[1] + 1) * size]:
            done(*cell)

    if client is None:
        _compute_in_threads(tasks, threads, tell)
    else:
        _collect(tasks, client, lambda future: tell(future.key))


def compute_value(delayed: Any, client: Any, threads: int) -> Any:
    """Compute one value on a client, or else in threads."""
    if client is None:
        with Cores(threads) as pool:
            return delayed.compute(scheduler="threads", pool=pool)
    found: list[Any] = []
    _collect(delayed, client, lambda future: found.append(ask(future.result)))
    return found[0]


def persist(collections: Sequence[Any], client: Any, threads: int) -> Sequence[Any]:
    """Begin to compute what is to stay on a client's workers; compute it in threads."""
    if client is not None:
        try:
            found: Sequence[Any] = client.persist(collections)
        except BaseException:
            # Not by force: another job may have the same inputs.
            with suppress(Exception):
                start(client.cancel, collections).result(CANCEL_SECONDS)
            raise
        return found
    with Cores(threads) as pool:
        computed: Sequence[Any] = dask.persist(
            *collections, scheduler="threads", pool=pool
        )
    return computed


def _collect(collection: Any, client: Any, done: Callable[[Any], None]) -> None:
    """Call `done` with the future of each finished task, then release it."""
    from distributed import futures_of

    watch = Watch(client)
    ended: SimpleQueue[Any] = SimpleQueue()
    futures = futures_of(client.persist(collection))
    try:
        for future in futures:
            future.add_done_callback(ended.put)
        for _ in futures:
            future = watch.next_done(ended)
            done(future)
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

    with Cores(threads, writes=True) as pool, Callback(posttask=count):
        # Not `compute`, which may fuse a single tile with its own last task.
        written.persist(scheduler="threads", pool=pool)
