"""Types that all engines share: encoded operands, fills."""

from typing import Any, Protocol

from ..typing import Array


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

    def reordered(self, planes: tuple[int, ...]) -> "Encoded":
        """Take planes[l] for plane l, without a copy: of X, those of its conjugate."""
        ...

    def residues(self) -> Array:
        """(planes, ..., rows, k) int8 symmetric residues: for tests, not for speed."""
        ...


class Fill(Protocol):
    """The entries of a tile of C that a NaN or an Inf of A or B reaches."""

    def plus(self, other: Any) -> Any:
        """Add the fill of another panel along k."""
        ...
