"""Magnitudes of entries and bounds of their products, one after the other."""

from collections.abc import Sequence
from math import ldexp, sqrt

import numpy as np

from ...moduli import NONFINITE_ROW, ZERO_ROW
from ...typing import Array
from ..finish import shift_columns
from ..operands import Sample


def magnitudes(samples: Sequence[Sample]) -> list[Array]:
    """Round the magnitudes of entries, relative to their rows, to 8 bits."""
    return [
        _magnitudes(shift_columns(x[rows], shifts), largest[rows])
        for x, largest, rows, shifts in samples
    ]


def _magnitudes(x: Array, largest: Array) -> Array:
    found = np.zeros(x.shape, np.float32)
    for i, e in enumerate(largest):
        if e in (ZERO_ROW, NONFINITE_ROW):
            continue
        for j, value in enumerate(x[i]):
            if value != 0:
                parts = (ldexp(t, -int(e)) for t in (value.real, value.imag))
                found[i, j] = max(sqrt(sum(t * t for t in parts)), 2.0**-126)
    return (found.view(np.uint32) >> 16).astype(np.uint16)


def multiply_magnitudes(x: Array, y: Array, bits: int) -> Array:
    """Sum products of integers of 64 bits."""
    digits = [np.floor(np.ldexp(_values(t), bits)).astype(np.int64) for t in (x, y)]
    return digits[0] @ digits[1].T


def largest_terms(x: Array, y: Array, wanted: Array) -> Array:
    """Find the largest sum of exponents, of all pairs."""
    found = np.full(wanted.shape, ZERO_ROW, np.int32)
    exponents = [np.frexp(_values(t))[1] - 1 for t in (x, y)]
    for i, j in np.ndindex(found.shape):
        some = (x[i] != 0) & (y[j] != 0)
        terms = (exponents[0][i] + exponents[1][j])[some]
        found[i, j] = terms.max(initial=ZERO_ROW)
    return found


def _values(x: Array) -> Array:
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
