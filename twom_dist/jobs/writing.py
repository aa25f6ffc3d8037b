"""Writing one tile, from any thread of any process, until somebody says stop."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import StoreError
from ..store import MatrixWriter
from ..typing import Array

# Of this process. A write that begins after the output has been discarded could bring
# a part of it back: zarr makes the folders that it misses.
_changed = threading.Condition()
_under_way: dict[str, int] = {}
_stopped: set[str] = set()
_one_at_a_time = threading.Lock()


@contextmanager
def _admit(temporary: str) -> Iterator[None]:
    with _changed:
        if temporary in _stopped:
            raise StoreError(f"{temporary!r} is being discarded; run the job again")
        _under_way[temporary] = _under_way.get(temporary, 0) + 1
    try:
        yield
    finally:
        with _changed:
            _under_way[temporary] -= 1
            _changed.notify_all()


def stop_writes(temporary: str, patience_seconds: float = 60) -> None:
    """Let no further write to a temporary begin here, and wait for those under way."""
    with _changed:
        _stopped.add(temporary)
        _changed.wait_for(lambda: not _under_way.get(temporary), patience_seconds)


def write_tile(
    tile: Array,
    writer: MatrixWriter,
    first: tuple[int, int],
    block_id: tuple[int, int] = (0, 0),
) -> Any:
    """Write tile ``first + block_id`` of the result; return a crumb for dask to keep.

    Every tile but the last of a row or column has the shape `writer.tile`.
    """
    rows, columns = (
        slice((f + b) * size, (f + b) * size + extent)
        for f, b, size, extent in zip(
            first, block_id, writer.tile, tile.shape, strict=True
        )
    )
    with _admit(writer.draft.temporary):
        if writer.concurrent:
            writer[rows, columns] = tile
        else:
            with _one_at_a_time:
                writer[rows, columns] = tile
    return np.ones((1, 1), np.int8)
