"""Types that all engines share: samples of rows, encoded operands, fills."""

from typing import Any, NamedTuple, Protocol

from ..typing import Array


class Sample(NamedTuple):
    """Some rows of an operand.

    Attributes
    ----------
    x : (rows, k)
    largest : (rows,) int32
        Exponents of the whole rows.
    rows : (count,) integers, on the host
    shifts : (k,) int32, optional
        Exponents of the columns, as for `Engine.largest_exponents`.
    """

    x: Array
    largest: Array
    rows: Array
    shifts: Array | None = None


class Encoded(Protocol):
    """The int8 planes of an operand tile, or a stack, in a layout of the engine."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., rows, k)."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    def residues(self) -> Array:
        """(planes, ..., rows, k) int8 symmetric residues: for tests, not for speed."""
        ...


class Fill(Protocol):
    """The entries of a tile of C that a NaN or an Inf of A or B reaches."""

    def plus(self, other: Any) -> Any:
        """Add the fill of another panel along k."""
        ...
