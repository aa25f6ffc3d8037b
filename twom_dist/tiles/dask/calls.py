"""Functions that tasks call: stages, inside the engine's scope, on checked tiles."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import portable_errors
from ...typing import Array, Side
from ..blocks import check_block, check_tile, unlike_chunks
from ..diagonal import ScaledRow, as_entries
from ..rows import Row, Stream
from ..spec import Spec, load_engine


def call_each(
    function: Callable[..., Any], spec: Spec, cases: Sequence[Sequence[Any]]
) -> list[Any]:
    """Call a stage of several rows of tiles."""
    return [function(spec, *args) for args in cases]


@contextmanager
def run_scope(spec: Spec) -> Iterator[None]:
    """Run a task in its engine's scope, with errors that any process can receive."""
    with portable_errors(), load_engine(spec).task():
        yield


def run(function: Callable[..., Any], spec: Spec, *args: Any) -> Any:
    """Call a stage."""
    with run_scope(spec):
        return function(spec, *args)


def receive(
    spec: Spec, side: Side, sizes: tuple[int, Sequence[int]], tiles: Any, shifts: Any
) -> Row:
    """Check the tiles of a row; a single tile comes without a list."""
    rows, steps = sizes
    # A block that is None is a lie that its check tells.
    tiles = [tiles] if len(steps) == 1 else tiles
    shifts = as_list(shifts, len(steps))
    with portable_errors():
        checked = [
            check_tile(tile, (rows, k), side, spec)
            for tile, k in zip(tiles, steps, strict=True)
        ]
    return Row(side, checked, shifts)


def as_list(found: Any, count: int) -> Any:
    """Undo `together`."""
    return [found] if count == 1 and found is not None else found


def stream(
    spec: Spec,
    side: Side,
    sizes: tuple[int, Sequence[int]],
    begin: Callable[[], Stream],
    shifts: Any,
) -> Row:
    """Make a row whose tiles are read, and checked, as they are multiplied."""
    return Row(side, begin(), as_list(shifts, len(sizes[1])))


def scale_row(row: Row, diag: Any) -> Row:
    """Have the columns of a row of op(A) scaled where a tile is taken."""
    return ScaledRow(row, as_list(diag, len(row.steps)))


def receive_entries(spec: Spec, entries: Array, size: int) -> Array:
    """Check entries of the diagonal."""
    if entries.shape != (size,):
        raise unlike_chunks()
    return as_entries(spec, entries)


def receive_added(spec: Spec, block: Array, shape: tuple[int, int]) -> Array:
    """Check a tile of C that is added."""
    with portable_errors():
        return check_block(block, shape, spec)
