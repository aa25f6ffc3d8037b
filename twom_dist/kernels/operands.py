"""What engines make of operands, each in a layout of its own."""

from typing import Any, Protocol

from ..typing import Array


class Encoded(Protocol):
    """The int8 planes of one operand tile, in a layout private to the engine."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, k)."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    def residues(self) -> Array:
        """(planes, rows, k) int8 symmetric residues: for tests, not for speed."""
        ...


class Fill(Protocol):
    """What a NaN or an Inf of A or B makes of a tile of C."""

    def plus(self, other: Any) -> Any:
        """Add the fill of another panel along k."""
        ...
