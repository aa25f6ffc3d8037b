"""The native product where no moduli reach what the data need: the stand-in.

Rows of op(A) and columns of op(B) are scaled by powers of two and multiplied in double,
so that it overflows only where the result does, in single precision, too:

    C_ij = 2^-(s_i + t_j) alpha sum_l (2^s_i a_il) (2^t_j b_lj) + beta c_ij

No row is scaled more than its largest entry asks for: small entries of a long range
stay what they are.
"""

from math import frexp
from typing import Any

import numpy as np

from ..kernels.family import namespace
from ..moduli import NONFINITE_ROW, ZERO_ROW
from ..typing import Array

# Exponents between which products, and sums of 2^40 of them, are normal numbers.
_LARGEST = 480
# Factors are normal numbers, and as many are enough for any scale.
_LARGEST_FACTOR, _FACTORS = 1000, 3


def choose_scales(largest: Array) -> Array:
    """Choose s for rows by their largest exponents; 0 for rows without a finite one."""
    xp = namespace(largest)
    known = (largest != ZERO_ROW) & (largest < NONFINITE_ROW)
    scales = xp.clip(largest, -_LARGEST, _LARGEST) - largest
    found: Array = xp.where(known, scales, 0).astype(np.int32)
    return found


def scale_rows(x: Array, scales: Array, shifts: Array | None) -> Array:
    """Return ``x[i, l] 2^(scales[i] + shifts[l])`` in double.

    Shifts first: entries that are not 0 become normal numbers by these.
    """
    found = x.astype(_double(x))
    if shifts is not None:
        found = found * _power(shifts)
    result: Array = found * _power(scales)[..., np.newaxis]
    return result


def unscale(values: Array, rows: Array, columns: Array, alpha: complex) -> Array:
    """Return ``alpha values[i, j] 2^-(rows[i] + columns[j])``.

    Alpha comes as a number near 1, its power of two by that of the entry.
    """
    most = max(abs(complex(alpha).real), abs(complex(alpha).imag))
    e = frexp(most)[1] if 0 < most < float("inf") else 0
    left = e - rows[..., :, np.newaxis] - columns[..., np.newaxis, :]
    found: Array = values * _halve(alpha, e)
    with np.errstate(over="ignore"):
        for _ in range(_FACTORS):
            now = namespace(left).clip(left, -_LARGEST_FACTOR, _LARGEST_FACTOR)
            found, left = found * _power(now), left - now
    return found


def _halve(alpha: complex, e: int) -> complex:
    """Return ``alpha 2^-e``: exactly, in two steps."""
    for part in (e // 2, e - e // 2):
        alpha = alpha * 2.0**-part
    return alpha.real if complex(alpha).imag == 0 else alpha


def _power(e: Any) -> Any:
    return namespace(e).ldexp(1.0, e)


def _double(x: Array) -> Any:
    return np.complex128 if x.dtype.kind == "c" else np.float64
