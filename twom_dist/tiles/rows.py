"""Rows of tiles of op(A), or of op(B)^T, along all of k or a part of it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..kernels.family import convert
from ..typing import Array, Side
from .integers import widen
from .spec import Spec, as_rows, load_engine


class Source(Protocol):
    """A stored matrix whose tiles are read where they are multiplied."""

    def read(self, i: int, j: int) -> Array:
        """Read a tile, as it is stored."""


class Stream(Sequence[Array]):
    """Tiles that are read when they are asked for; only the last one is kept."""

    def __init__(self, source: Source, places: Sequence[tuple[int, int]]) -> None:
        self._source, self._places = source, places
        self._last: tuple[int, Array] | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, step: Any) -> Any:
        if self._last is None or self._last[0] != step:
            self.drop()  # not both at once
            self._last = step, self.read(step)
        return self._last[1]

    def drop(self) -> None:
        """Keep no tile."""
        self._last = None

    def mark(self, step: int) -> int:
        """Tell the content of a tile that was read from another's; 0 of a file's."""
        return 0

    def read(self, step: int) -> Array:
        """Read a tile."""
        return self._source.read(*self._places[step])

    def __eq__(self, other: object) -> bool:
        """Tell whether both read the same tiles."""
        if not isinstance(other, Stream):
            return False
        return (self._source, self._places) == (other._source, other._places)

    __hash__ = None  # type: ignore[assignment]


class Steps(Sequence[Array]):
    """Something of each tile of a stream, which is dropped once it has been made."""

    def __init__(self, tiles: Stream, make: Callable[[int], Array]) -> None:
        self._tiles, self._make = tiles, make

    def __len__(self) -> int:
        return len(self._tiles)

    def __getitem__(self, step: Any) -> Any:
        if not 0 <= step < len(self):
            raise IndexError(step)
        found = self._make(step)
        self._tiles.drop()
        return found


class Row:
    """Tiles side by side along k: blocks of A or B, as they are stored.

    `shifts`: for each tile the e of ``op(A) 2^-e`` and ``2^e op(B)``, if any.
    """

    __slots__ = ("_exponents", "_views", "shifts", "side", "steps", "tiles")

    made = False  # whether tiles are made as they are taken: few at a time, then

    def __init__(
        self,
        side: Side,
        tiles: Sequence[Array],
        shifts: Sequence[Array | None] | None = None,
    ) -> None:
        self.side, self.tiles, self.shifts = side, tiles, shifts
        self.steps = range(len(tiles))  # places of the tiles that are taken now
        self._views: dict[int, Array] = {}
        self._exponents: dict[int, Array] = {}

    def steps_at_once(self, products: int) -> list[range]:
        """List the steps that products take side by side: one of several, or a stream.

        So many tiles are encoded at once as those of one step.
        """
        if products > 1 or isinstance(self.tiles, Stream):
            return [range(step, step + 1) for step in self.steps]
        return [self.steps]

    def drop(self) -> None:
        """Keep no tile that is read."""
        if isinstance(self.tiles, Stream):
            self.tiles.drop()

    def view(self, step: int, spec: Spec) -> Array:
        """View a tile as rows of op(A), or of op(B)^T."""
        found = self._views.get(step)
        if found is None:
            found = as_rows(self.tiles[step], self.side, spec.op(self.side))
            if not isinstance(self.tiles, Stream):
                self._views[step] = found
        return found

    def cut(
        self, tiles: Sequence[Array], steps: Sequence[slice], shifts: Any = None
    ) -> "Row":
        """Return a row of the tiles that a tile of all of k is cut to."""
        return Row(self.side, tiles, shifts)

    def whole(self, spec: Spec) -> "Row":
        """Return a row of one tile, which is not made any more as it is taken."""
        return self

    def scaled_by(self, step: int) -> bytes | None:
        """Identify what a tile is multiplied by as it is taken; None if by nothing."""
        return None

    def view_widened(self, step: int, spec: Spec) -> Array:
        """View a tile, as `view` does, in the dtype that engines take."""
        if not spec.widens:
            return self.view(step, spec)
        block = widen(self.tiles[step], spec.operand_dtype)
        return as_rows(block, self.side, spec.op(self.side))

    def view_shifted(self, step: int, spec: Spec) -> tuple[Array, Array | None]:
        """Return a view of a tile, and the exponents of its columns."""
        return self.view(step, spec), self.shifts_of(step, spec)

    def shifts_of(self, step: int, spec: Spec) -> Array | None:
        """Return the exponents of a tile's columns, as the engine takes them."""
        e = None if self.shifts is None else self.shifts[step]
        if e is None:
            return None
        # Sent to a device once, for all stages.
        found = self._exponents.get(step)
        if found is None:
            own = e if self.side == "right" else -e
            found = self._exponents[step] = convert(own, load_engine(spec).family)
        return found


def share_streams(rows: Sequence[Row]) -> Sequence[Row]:
    """Have rows that read the same tiles read them once, and return them."""
    found: list[Stream] = []
    for row in rows:
        if isinstance(row.tiles, Stream):
            own = next((x for x in found if x == row.tiles), None)
            if own is None:
                found.append(row.tiles)
            else:
                row.tiles = own
    return rows


def share_tiles(left: Row, right: Row) -> Row:
    """Return the right row, with the tiles of the left one if both read the same."""
    if isinstance(left.tiles, Stream) and left.tiles == right.tiles:
        return Row(right.side, left.tiles, right.shifts)
    return right


def shifts_of_both(rows: Sequence[Row], spec: Spec) -> list[Array] | None:
    """Return the exponents of the columns of whole matrices, or None."""
    found = [row.shifts_of(0, spec) for row in rows]
    return None if found[0] is None else found
