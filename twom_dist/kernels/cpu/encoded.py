"""The int8 planes of one operand, in the layout that the products read."""

from dataclasses import dataclass

import numpy as np

from ...typing import Array

# Of what the units multiply at once: rows of a group, and neighbours along k that one
# 32-bit word of a vector holds.
GROUP, DEPTH = 16, 4


def as_groups(x: Array) -> Array:
    """Lay (..., rows, k) out as (..., groups, words, 16, 4), padded with zeros."""
    *before, rows, k = x.shape
    groups, words = -(-rows // GROUP), -(-k // DEPTH)
    padded = np.zeros((*before, groups * GROUP, words * DEPTH), x.dtype)
    padded[..., :rows, :k] = x
    found = padded.reshape(*before, groups, GROUP, words, DEPTH).swapaxes(-3, -2)
    return np.ascontiguousarray(found)


@dataclass(frozen=True)
class CpuEncoded:
    """Planes of either side.

    Attributes
    ----------
    rows, k : int
    planes : (planes, groups, words, 16, 4) int8
        Symmetric residues: row ``16 g + r``, column ``4 w + t``; zeros in the padding.
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
        out = np.empty((len(self.order), self.rows, self.k), np.int8)
        _, groups, words, _, _ = self.planes.shape
        for target, plane in zip(out, self.planes[list(self.order)], strict=True):
            rows = plane.transpose(0, 2, 1, 3).reshape(groups * GROUP, words * DEPTH)
            target[...] = rows[: self.rows, : self.k]
        return out
