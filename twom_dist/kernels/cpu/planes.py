"""The int8 planes of one operand, in the layout that the products read."""

from dataclasses import dataclass, replace

import numpy as np

from ...typing import Array, Uplo

# The units multiply at once the rows of a group, and as many neighbours along k as one
# 32-bit word of a vector holds.
GROUP, DEPTH = 16, 4

BYTE = np.dtype(np.int8)

# Which side of the diagonal is wanted.
SIDES: dict[Uplo, int] = {"lower": -1, "full": 0, "upper": 1}


def as_whole(rows: int) -> int:
    """Round up to whole groups."""
    return -(-rows // GROUP) * GROUP


def as_groups(x: Array) -> Array:
    """Lay (..., rows, k) out as (..., groups, words, 16, 4), padded with zeros."""
    *before, rows, k = x.shape
    groups, words = -(-rows // GROUP), -(-k // DEPTH)
    padded = np.zeros((*before, groups * GROUP, words * DEPTH), x.dtype)
    padded[..., :rows, :k] = x
    found = padded.reshape(*before, groups, GROUP, words, DEPTH).swapaxes(-3, -2)
    return np.ascontiguousarray(found)


# Not frozen: that takes four times as long to make.
@dataclass(slots=True)
class CpuEncoded:
    """Planes of either side, which are never changed."""

    rows: int
    k: int
    # (planes, groups, words, 16, 4) int8: symmetric residues: row ``16 g + r``, column
    # ``4 w + t``; zeros in the padding. Matrices of a stack one below the other, each
    # from a whole group on.
    planes: Array
    # Where each plane stands in `planes`; ``~i`` is that of i with the other sign.
    order: tuple[int, ...]
    stack: tuple[int, ...] = ()  # axes in front of the matrices
    offset: int = 0  # what the entries exceed those of `planes` by: 128 for uint8

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.stack, self.rows, self.k

    @property
    def nbytes(self) -> int:
        return int(self.planes.nbytes)

    def reorder(self, planes: tuple[int, ...]) -> "CpuEncoded":
        return replace(self, order=tuple(self.order[plane] for plane in planes))
