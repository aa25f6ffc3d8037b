"""Statistics of rows, and the few numbers of a matrix that follow from them.

Rows are rows of op(A) or columns of op(B), always along k. All numbers are integers, or
float64 with every operation rounded separately, so every engine finds the same.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..moduli import ZERO_ROW
from ..typing import Array
from .family import convert

# What can be asked for beside the largest exponents.
Ask = Literal["squares", "totals", "columns", "octaves"]
# Each formula of angles has less than ten operations, relative errors of 2^-53.
MARGIN = 2.0**-48

# An entry in octave o of a row whose largest exponent is e has a part of at least
# ``2^(e - 1 - o)``. Octaves are 0 to 62: two of them add to less than `FAR`, and two
# bytes to a byte, whatever they say.
#
# Octaves below the largest from which an entry is only known to be there.
FURTHEST = 63
FAR = 126  # an entry that is not 0, but 63 octaves or more below the largest
NONE = 127  # an entry that is 0, or any in a row that has no largest, or is not finite
# What is counted: the entries of a row down to each of these octaves, and all others.
COUNTED = (*range(16), 21, 27, 33, 39, 45, 51, 57, 62, FAR)


class RowStatistics(NamedTuple):
    """Statistics of the rows of one matrix, or of each of a stack.

    `Analyses.measure` says what each number is, and how those of tiles combine.
    """

    largest: Array  # (..., rows) int32
    squares: Array = None  # (..., rows) int64, optional
    totals: Array = None  # (..., rows) int64, optional
    columns: Array = None  # (..., 3, k) int32, optional
    octaves: Array = None  # (..., rows, 25) int32, optional

    def take(self, which: Any) -> "RowStatistics":
        """Return some rows, or those of some matrices of a stack; no columns."""
        given = self._replace(columns=None)
        return RowStatistics(*(None if x is None else x[which] for x in given))

    def on_host(self) -> "RowStatistics":
        """Return NumPy arrays."""
        return RowStatistics(
            *(None if x is None else convert(x, "numpy") for x in self)
        )


def smallest_cosines(sides: Sequence[RowStatistics], k: int) -> Array:
    """Bound the cosines of each matrix's rows with ones from below: (sides, count).

    1 without a finite nonzero row.
    """
    found = []
    for x in sides:
        squares, totals = (t.astype(np.float64) for t in (x.squares, x.totals))
        # Integers: those that are not 0 are 1 at least.
        norms = np.sqrt(np.maximum(squares, 1.0) * k)
        own = np.where(squares == 0, 1.0, totals / norms * (1 - MARGIN))
        found.append(own.min(axis=-1, initial=1.0).reshape(-1))
    return np.stack(found)


def column_bits(k: int) -> int:
    """Return the bits of the units of `sum_columns`: sums stay below 2^62."""
    return min(40, 62 - k.bit_length())


def sum_columns(left: Array, right: Array) -> Array:
    """Sum squares of the columns' largest entries, and products of both sides' ones.

    `left`, `right`: (..., 3, k) int32, of which the first are at most 0. Returns (3,
    count) int64 of left, right and both, in units of ``2^-column_bits(k)``, to which
    each power of two is rounded up; columns that are 0 add nothing.
    """
    a, b = (
        x[..., 0, :].reshape(-1, x.shape[-1]).astype(np.int64) for x in (left, right)
    )
    bits, some = column_bits(a.shape[-1]), (a != ZERO_ROW, b != ZERO_ROW)
    each = (2 * a, some[0]), (2 * b, some[1]), (a + b, some[0] & some[1])
    terms = [
        np.where(own, np.int64(1) << np.maximum(e + bits, 0), 0) for e, own in each
    ]
    return np.stack([t.sum(axis=-1) for t in terms])
