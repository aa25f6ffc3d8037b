"""Accumulators of C tiles, passed from one task along k to the next."""

import sys
from dataclasses import dataclass

from ..kernels.operands import Fill
from ..typing import Array


@dataclass(frozen=True)
class Accumulator:
    """A C tile between two panels: residues (or native sums) and non-finite fill."""

    values: Array
    fill: Fill | None

    def __sizeof__(self) -> int:
        return int(self.values.nbytes) + sys.getsizeof(self.fill)
