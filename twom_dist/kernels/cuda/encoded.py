"""The int8 planes of one operand on a device."""

from dataclasses import dataclass

from ...typing import Array


@dataclass(frozen=True)
class CudaEncoded:
    """Planes of either side, K-major, as the tensor cores want both.

    Attributes
    ----------
    rows, k : int
    planes : (planes, padded rows, padded k) int8
        Zeros in the padding.
    order : tuple of int
        Where each plane stands in `planes`.
    """

    rows: int
    k: int
    planes: Array
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, k)."""
        return self.rows, self.k

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.planes.nbytes)

    def residues(self) -> Array:
        """(planes, rows, k) int8 symmetric residues."""
        planes: Array = self.planes[list(self.order), : self.rows, : self.k]
        return planes
