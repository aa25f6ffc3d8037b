"""Measurements of rows of op(A) and of columns of op(B), all of k together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...kernels.family import convert, namespace
from ...typing import Array


class Measured(NamedTuple):
    """Rows of op(A), or columns of op(B): largest exponents, and sums.

    Attributes
    ----------
    largest : (rows,) int32
    squares : (rows,) int64
    totals : (rows,) int64, optional
        Sums of magnitudes, where they choose the moduli: see `Engine.row_sums`.
    columns : (3, k) int32, optional
        Extreme exponents of each column: see `Engine.column_exponents`.
    octaves : (rows, 25) int32, optional
        Entries of each row by octaves: see `Engine.count_octaves`.
    """

    largest: Array
    squares: Array
    totals: Array | None = None
    columns: Array | None = None
    octaves: Array | None = None

    def known_octaves(self) -> tuple[Array, Array]:
        """Return the squares, and the octaves, which have been counted."""
        assert self.octaves is not None
        return self.squares, self.octaves

    def take(self, which: Any) -> "Measured":
        """Return some rows, or those of some matrices of a stack."""
        given = self._replace(columns=None)
        return Measured(*(None if x is None else x[which] for x in given))

    def on_host(self) -> "Measured":
        """Return NumPy arrays, without the columns."""
        given = self._replace(columns=None)
        return Measured(*(None if x is None else convert(x, "numpy") for x in given))


def join(parts: Sequence[Array]) -> Array:
    """Put arrays side by side along their last axis."""
    if len(parts) == 1:
        return parts[0]
    return namespace(parts[0]).concatenate(parts, axis=-1)
