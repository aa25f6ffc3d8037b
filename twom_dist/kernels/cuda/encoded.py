"""The int8 planes of one operand on a device."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ...typing import Array


@dataclass(frozen=True)
class CudaEncoded:
    """Planes of either side, K-major, as the tensor cores want both.

    Attributes
    ----------
    rows, k : int
    planes : (planes, padded rows, padded k) int8
        Zeros in the padding. Matrices of a stack lie one below the other.
    order : tuple of int
        Where each plane stands in `planes`.
    stack : tuple of int
        Axes in front of the matrices.
    made : (stream, event), optional
        The stream that makes the planes, and the event when it has.
    """

    rows: int
    k: int
    planes: Array
    order: tuple[int, ...]
    stack: tuple[int, ...] = ()
    made: tuple[Any, Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., rows, k)."""
        return *self.stack, self.rows, self.k

    def by_matrix(self) -> Array:
        """View the planes as (planes, matrices, padded rows, padded k)."""
        planes, rows, k = self.planes.shape
        count = prod(self.stack)
        return self.planes.reshape(planes, count, rows // max(1, count), k)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.planes.nbytes)

    def reordered(self, planes: tuple[int, ...]) -> "CudaEncoded":
        """Take the planes in another order; the memory is the same."""
        return replace(self, order=tuple(self.order[plane] for plane in planes))

    def residues(self) -> Array:
        """(planes, ..., rows, k) int8 symmetric residues."""
        planes = self.by_matrix()[list(self.order), :, : self.rows, : self.k]
        return planes.reshape(len(self.order), *self.shape)
