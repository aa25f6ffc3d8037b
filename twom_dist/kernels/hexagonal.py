"""Roots of 3 in two float64 components, as Eisenstein integers take them."""

from fractions import Fraction
from math import isqrt

_ROOT_BITS = 300


def _two_words(numerator: int, denominator: int) -> tuple[float, float]:
    """Round ``sqrt(numerator / denominator)``, and what that leaves: 2^-106 is lost."""
    whole = isqrt((numerator << 2 * _ROOT_BITS) // denominator)
    root = Fraction(whole, 1 << _ROOT_BITS)
    leading = float(root)
    return leading, float(root - Fraction(leading))


# 1/sqrt(3), which encoding multiplies by, and sqrt(3)/2, which decoding does.
INVERSE_ROOT = _two_words(1, 3)
HALF_ROOT = _two_words(3, 4)
