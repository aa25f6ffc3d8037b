"""Unevaluated sums of two doubles, high component first.

References
----------
.. [1] T. J. Dekker, "A floating-point technique for extending the available precision",
   Numerische Mathematik 18 (1971).
"""

import numpy as np

from ..typing import Array
from .family import namespace


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
