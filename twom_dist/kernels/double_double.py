"""Unevaluated sums of two doubles, high component first.

References
----------
.. [1] T. J. Dekker, "A floating-point technique for extending the available precision",
   Numerische Mathematik 18 (1971).
"""

from fractions import Fraction
from math import isqrt

import numpy as np

from ..typing import Array
from .family import namespace

_ROOT_BITS = 300


def add_pairs(x: Array, y: Array) -> Array:
    """Add with an error of about 2^-105 of the larger; what overflows has low parts 0.

    NumPy or CuPy arrays (2, m, n), float64 or complex128, C-contiguous.
    """
    xp, dtype = namespace(x), x.dtype
    (a, a_low), (b, b_low) = (t.view(t.real.dtype) for t in (x, y))
    with np.errstate(over="ignore", invalid="ignore"):
        total = a + b
        part = total - a
        low = (a - (total - part)) + (b - part) + (a_low + b_low)
        high = total + low
        low -= high - total
    # What is not finite has no low part, all NaNs are alike, and zeros positive.
    infinite = xp.where(xp.isnan(total), np.nan, total)
    finite = xp.isfinite(high)
    high = xp.where(xp.isfinite(total), high, infinite)
    pair = xp.stack([high, xp.where(finite, low, 0)])
    return (pair + 0.0).view(dtype)


def _root(numerator: int, denominator: int) -> tuple[float, float]:
    """Round ``sqrt(numerator / denominator)``, and what that leaves: 2^-106 is lost."""
    whole = isqrt((numerator << 2 * _ROOT_BITS) // denominator)
    root = Fraction(whole, 1 << _ROOT_BITS)
    leading = float(root)
    return leading, float(root - Fraction(leading))


# 1/sqrt(3), which encoding Eisenstein integers multiplies by, and sqrt(3)/2, which
# decoding them does.
INVERSE_ROOT = _root(1, 3)
HALF_ROOT = _root(3, 4)
