"""Requantise: int32 sums of an int8 product -> symmetric int8 residues."""

import numpy as np
from numba import njit

_ROUND = 1.5 * 2.0**52


@njit(nogil=True, cache=True)
def requantise(sums, p, accumulate, residues, row, column):  # type: ignore[no-untyped-def]
    """Reduce sums[m, n] modulo p into residues[row:, column:], adding if asked to."""
    inverse = 1.0 / p
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            v = np.float64(sums[i, j])
            if accumulate:
                v += np.float64(residues[row + i, column + j])
            quotient = (v * inverse + _ROUND) - _ROUND
            v -= quotient * p
            # A tie (p = 256 alone) may give +128: the low byte is -128.
            residues[row + i, column + j] = np.int8(np.int32(v))
