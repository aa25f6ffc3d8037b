"""Accumulators of C tiles, passed from one task along k to the next."""

import sys
from dataclasses import dataclass

from ..kernels.protocol import Fill
from ..typing import Array


@dataclass(frozen=True)
class Accumulator:
    """A C tile between two panels."""

    values: Array  # residues, or sums of the native product
    fill: Fill | None = None  # of rows and columns that are not finite
    scaled: Array | None = None  # what `stand_in` keeps beside sums that overflow

    def __sizeof__(self) -> int:
        beside = 0 if self.scaled is None else int(self.scaled.nbytes)
        return int(self.values.nbytes) + beside + sys.getsizeof(self.fill)
