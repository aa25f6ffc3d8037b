"""Computing the tiles of a wave and writing each as soon as it is there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ..store import MatrixWriter
from .layout import Wave
from .writing import stop_writes, write_tile

# Called with the index of a tile within its wave.
Done = Callable[[int, int], None]


def compute_wave(
    product: Any,
    wave: Wave,
    writer: MatrixWriter,
    client: Any,
    threads: int,
    done: Done,
) -> None:
    """Compute the lazy product of one wave and write it, tile by tile.

    Parameters
    ----------
    product : dask.array.Array
        The C tiles of the wave.
    wave : Wave
    writer : MatrixWriter
    client : distributed.Client or None
        None computes with threads of this process.
    threads : int
        Of this process.
    done : callable
    """
    if client is None:
        _compute_in_threads(_write_tasks(product, wave, writer), threads, done)
    elif writer.concurrent:
        written = client.persist(_write_tasks(product, wave, writer))
        _collect(written, client, lambda key, _: done(*key[1:]))
    else:
        first = wave.rows.start, wave.columns.start

        def write(key: Any, tile: Any) -> None:
            write_tile(tile, writer, first, key[1:])
            done(*key[1:])

        _collect(client.persist(product), client, write)


def _write_tasks(product: Any, wave: Wave, writer: MatrixWriter) -> Any:
    """Make one task ``twom-write`` for every tile, that leaves next to nothing."""
    from dask.base import tokenize
    from dask.delayed import delayed

    token = tokenize(writer.draft.temporary, wave)
    # A task of its own: dask fuses tasks that depend on one other task alone, and the
    # scheduler would not know the fused ones as products that have a place.
    shared_writer = delayed(writer, name=f"twom-writer-{token}", traverse=False)
    return product.map_blocks(
        write_tile,
        shared_writer,
        first=(wave.rows.start, wave.columns.start),
        name=f"twom-write-{token}",
        dtype=np.int8,
        chunks=tuple((1,) * count for count in product.numblocks),
        meta=np.empty((0, 0), np.int8),
    )


def _collect(
    collection: Any, client: Any, take: Callable[[tuple[Any, ...], Any], None]
) -> None:
    """Take the key and value of each block when it is there, and let go of it."""
    from distributed import as_completed, futures_of

    futures = futures_of(collection)
    del collection
    try:
        for future in as_completed(futures):
            take(future.key, future.result())
            # The workers may forget the tile now.
            future.release()
    except BaseException:
        with suppress(Exception):
            client.cancel(futures, force=True)
        raise


def _compute_in_threads(written: Any, threads: int, done: Done) -> None:
    from dask.callbacks import Callback

    def count(key: Any, *_: Any) -> None:
        if isinstance(key, tuple) and str(key[0]).startswith("twom-write-"):
            done(*key[1:])

    with Callback(posttask=count):
        written.compute(scheduler="threads", num_workers=threads)


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
                client.run(stop_writes, temporary, on_error="ignore")
        stop_writes(temporary)
        raise
