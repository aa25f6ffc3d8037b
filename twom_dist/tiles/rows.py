"""Rows of tiles: one row of tiles of op(A), or of op(B)^T, along some of k."""

from collections.abc import Sequence

from ..kernels.family import convert
from ..typing import Array, Side
from .integers import widen
from .spec import Spec, as_rows, load_engine


class Row:
    """Tiles side by side along k.

    Attributes
    ----------
    side : {"left", "right"}
    tiles : sequence of array
        Blocks of A or B, as they are stored.
    shifts : sequence of (k,) int32 or None, optional
        For each tile the e of ``op(A) 2^-e`` and ``2^e op(B)``.
    """

    __slots__ = ("_views", "shifts", "side", "tiles")

    def __init__(
        self,
        side: Side,
        tiles: Sequence[Array],
        shifts: Sequence[Array | None] | None = None,
    ) -> None:
        self.side, self.tiles, self.shifts = side, tiles, shifts
        self._views: dict[int, Array] = {}

    def shift(self, shifts: Sequence[Array | None]) -> None:
        """Shift the columns from now on."""
        self.shifts = shifts
        self._views.clear()

    def view(self, step: int, spec: Spec) -> Array:
        """View a tile as rows of op(A), or of op(B)^T."""
        found = self._views.get(step)
        if found is None:
            found = as_rows(self.tiles[step], self.side, spec.op(self.side))
            e = self.shifts_of(step)
            if e is not None:
                engine = load_engine(spec)
                found = engine.scale_columns(found, convert(e, engine.family))
            self._views[step] = found
        return found

    def widened(self, step: int, spec: Spec) -> Array:
        """View a tile, as `view` does, in the dtype that engines take."""
        if not spec.stored:
            return self.view(step, spec)
        block = widen(self.tiles[step], spec.operand_dtype)
        return as_rows(block, self.side, spec.op(self.side))

    def shifts_of(self, step: int) -> Array | None:
        """Return the powers of two that the columns of a tile are multiplied by."""
        e = None if self.shifts is None else self.shifts[step]
        return e if e is None or self.side == "right" else -e
