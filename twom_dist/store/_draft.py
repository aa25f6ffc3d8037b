"""A matrix that is being written under a temporary name."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Draft:
    """The temporary path of an output and the layout it is to have."""

    temporary: str
    member: str | None
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    tile: tuple[int, int]

    @property
    def chunks(self) -> tuple[int, int]:
        """The tile, no larger than the matrix: stored chunks are padded to whole."""
        (m, n), (mb, nb) = self.shape, self.tile
        return min(mb, max(m, 1)), min(nb, max(n, 1))

    @property
    def nbytes(self) -> int:
        """The bytes of the elements alone."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize
