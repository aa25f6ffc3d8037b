"""Requantise: sums of an int8 product, int32 or float32 -> symmetric int8 residues."""

import numpy as np

from ..compiled import kernel

# |v - p rint(v / p)| with rint from the multiplier m = rint(2^40 / p): the quotient is
# off by |v| 2^-41 <= 2^-10, and v/p is at least 1/(2p) > 2^-9 away from a tie for odd
# p; for p = 256, m is exact. A tie gives +128, whose low byte is -128.
SHIFT = 40


def multiplier(p: int) -> int:
    """Return rint(2^40 / p)."""
    return ((1 << SHIFT + 1) // p + 1) >> 1


@kernel
def requantise(sums, p, m, residues, row, column):  # type: ignore[no-untyped-def]
    """Reduce sums[m, n] modulo p into the block of residues at (row, column)."""
    for i in range(sums.shape[0]):
        source = sums[i]
        # A slice of a row keeps Numba's knowledge that it is contiguous.
        target = residues[row + i, column : column + source.size]
        for j in range(source.size):
            v = np.int64(np.int32(source[j]))
            target[j] = np.int8(v - ((v * m + (1 << (SHIFT - 1))) >> SHIFT) * p)


@kernel
def requantise_add(sums, old, p, m, residues, row, column):  # type: ignore[no-untyped-def]
    """Add sums[m, n] and old residues, which may be `residues` itself, modulo p."""
    line = np.empty(sums.shape[1], np.int32)
    for i in range(sums.shape[0]):
        source = sums[i]
        target = residues[row + i, column : column + source.size]
        before = old[row + i, column : column + source.size]
        # First, since LLVM knows that these do not overlap; |sum| < 2^31 - 128.
        for j in range(source.size):
            line[j] = np.int32(source[j]) + before[j]
        for j in range(source.size):
            v = np.int64(line[j])
            target[j] = np.int8(v - ((v * m + (1 << (SHIFT - 1))) >> SHIFT) * p)
