"""Writing one tile, from any thread of any process, until somebody says stop."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ..errors import StoreError, portable_errors
from ..store import MatrixWriter
from ..typing import Array, Cell
from .device_transfer import to_host

# Makes the tile of the other triangle.
Mirror = Callable[[Array], Array]

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
            problem = f"{temporary!r} is being discarded"
            raise StoreError(problem, "Run the job again", "output-discarded")
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
    tile: Array, place: Cell, writer: MatrixWriter, mirror: Mirror | None = None
) -> Any:
    """Write the tile at a place of the result, and its image, if there is a mirror.

    A tile of a device is brought to the host first. Returns a crumb for dask to keep.
    """
    i, j = place
    turn = nullcontext() if writer.concurrent else _one_at_a_time
    with portable_errors(), _admit(writer.temporary), turn:
        tile = to_host(tile)
        writer[writer.region(i, j)] = tile
        if mirror is not None and i != j:
            writer[writer.region(j, i)] = mirror(tile)
    return np.ones((1, 1), np.int8)


def bring_tile(tile: Array, place: Cell) -> Array:
    """Bring a tile of the result to the host."""
    with portable_errors():
        return to_host(tile)
