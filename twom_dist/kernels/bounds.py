"""Products of magnitudes by a BLAS: sums of integers, and largest terms."""

from collections.abc import Sequence

import numpy as np

from ..moduli import ZERO_ROW
from ..typing import Array

# Multiplications of a product that OpenBLAS does in the calling thread.
_ONE_THREAD = 2**18
# Exponent that stands for a zero.
_NOTHING = np.int16(-10_000)


def fetch(arrays: Sequence[Array]) -> list[Array]:
    """Return arrays that are on the host."""
    return list(arrays)


def multiply_magnitudes(x: Array, y: Array, bits: int) -> Array:
    """Sum floor(x 2^bits) floor(y 2^bits) along k, by the BLAS: exact in any order."""
    unit = 2.0**bits
    return _multiply(*(np.floor(_values(t).astype(np.float64) * unit) for t in (x, y)))


def largest_terms(x: Array, y: Array, wanted: Array) -> Array:
    """Find the largest sum of exponents of each wanted pair of rows."""
    found = np.full(wanted.shape, ZERO_ROW, np.int32)
    # In sparse matrices most entries are sums of nothing.
    meet = _multiply(*((t != 0).astype(np.float64) for t in (x, y))) > 0
    wanted = wanted & meet
    if not wanted.any():
        return found
    exponents = [
        np.where(t == 0, _NOTHING, (t >> 7).astype(np.int16) - np.int16(127))
        for t in (x, y)
    ]
    for i in np.flatnonzero(wanted.any(axis=1)):
        terms = exponents[0][i] + exponents[1][wanted[i]]
        found[i, wanted[i]] = terms.max(axis=1)
    return found


def _values(x: Array) -> Array:
    """Return magnitudes as numbers: the leading halves of float32s."""
    return (x.astype(np.uint32) << 16).view(np.float32)


def _multiply(x: Array, y: Array) -> Array:
    """Multiply rows of integers, exactly and so in any order.

    Small ones in pieces for which OpenBLAS starts no threads: these spin after their
    work, and gemm at 1024 took 1.4 times as long (AMD EPYC, 2 cores).
    """
    pieces = _ONE_THREAD // max(1, len(x) * len(y))
    if pieces < 4:
        return x @ y.T
    total = np.zeros((len(x), len(y)))
    for lo in range(0, x.shape[1], pieces):
        total += x[:, lo : lo + pieces] @ y[:, lo : lo + pieces].T
    return total
