"""Numbers times powers of two, exactly or rounded once; Eisenstein integers."""

from fractions import Fraction
from math import copysign, isqrt

import numpy as np

from ...moduli import NONFINITE_ROW, ResidueSystem, symmetric_residue
from ...typing import Array

_ROOT_BITS = 300


def shift_columns(x: Array, shifts: Array | None) -> Array:
    """Multiply column l by 2^shifts[l] into a new array; x itself without shifts."""
    if shifts is None:
        return x
    out = np.empty(x.shape, x.dtype.newbyteorder("="))
    factors = np.ldexp(out.real.dtype.type(1), shifts)
    # Rows with a NaN or an Inf, here or in another tile, may leave the numbers.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        np.multiply(x.real, factors, out=out.real)
        if np.iscomplexobj(x):
            np.multiply(x.imag, factors, out=out.imag)
    return out


def _as_quotient(x: float, shift: int) -> tuple[int, int]:
    """|x| 2^shift as a quotient: of Fractions, each would seek a common divisor."""
    above, below = abs(float(x)).as_integer_ratio()
    return above << max(0, int(shift)), below << max(0, -int(shift))


def quantise(x: float, exponent: int) -> int:
    """rint(x 2^exponent), ties to even."""
    if exponent >= NONFINITE_ROW:
        return 0
    above, below = _as_quotient(x, exponent)
    whole, rest = divmod(above, below)
    whole += 2 * rest > below or (2 * rest == below and whole % 2)
    return -whole if x < 0 else whole


def ceil_scaled(x: float, shift: int) -> int:
    """ceil(|x| 2^shift)."""
    above, below = _as_quotient(x, shift)
    return -(-above // below)


def _fma(x: float, y: float, z: float) -> float:
    """x y + z, rounded once."""
    return float(Fraction(x) * Fraction(y) + Fraction(z))


def _root(numerator: int, denominator: int) -> tuple[float, float]:
    """Round ``sqrt(numerator / denominator)``, and what that leaves: 2^-106 is lost."""
    whole = isqrt((numerator << 2 * _ROOT_BITS) // denominator)
    root = Fraction(whole, 1 << _ROOT_BITS)
    leading = float(root)
    return leading, float(root - Fraction(leading))


# What encoding Eisenstein integers multiplies by, and decoding them.
INVERSE_ROOT = _root(1, 3)
HALF_ROOT = _root(3, 4)


def nearest_point(re: float, im: float, exponent: int) -> tuple[int, int]:
    """Find g and h of the point nearest to ``(re + i im) 2^exponent``.

    Of those with even parts, or with odd ones, which are nearer where
    ``|u| + 3 |v| > 1``. Signs are those of the parts, zeros included: so conjugation
    and negation commute with this, also half-way between two points.
    """
    if exponent >= NONFINITE_ROW:
        return 0, 0
    scale = Fraction(2) ** int(exponent)
    x, y = (float(abs(Fraction(float(t))) * scale) for t in (re, im))
    first = y * INVERSE_ROOT[0]
    second = _fma(y, INVERSE_ROOT[0], -first) + y * INVERSE_ROOT[1]
    m, n = round(x), round(first)
    f = (first - n) + second
    rest = round(f)
    u, v = x - m, f - rest
    g, h = 2 * m, 2 * (n + rest)
    if abs(u) + 3.0 * abs(v) > 1.0:
        g += -1 if u < 0 else 1
        h += -1 if v < 0 else 1
    return int(copysign(1, re)) * g, int(copysign(1, im)) * h


def lift_to_cell(g: int, h: int, system: ResidueSystem) -> tuple[int, int]:
    """Find the least ``|g + h sqrt(-3)|`` with these residues, and of one parity."""
    m = system.modulus_product
    g, h = symmetric_residue(g, m), symmetric_residue(h, m)
    if (g + h) % 2 == 0:
        return g, h
    u, v = _over_modulus(g, system), _over_modulus(h, system)
    if 3.0 * abs(v) - abs(u) > 1.0:
        return g, h + (m if v < 0 else -m)
    return g + (m if u < 0 else -m), h


def _over_modulus(x: int, system: ResidueSystem) -> float:
    """x / M, of its two leading digits."""
    m, b, count = system.modulus_product, system.digit_bits, system.num_digits
    digits = system.digits(x)
    quotient = digits[-1] * ((1 << (count - 1) * b) / m)
    if count > 1:
        quotient += digits[-2] * ((1 << (count - 2) * b) / m)
    return quotient


def half_root_of(v: float, low: float) -> tuple[float, float]:
    """``(v + low) sqrt(3) / 2``, as two components."""
    product = v * HALF_ROOT[0]
    rest = _fma(v, HALF_ROOT[0], -product) + (v * HALF_ROOT[1] + low * HALF_ROOT[0])
    total = product + rest
    return total, rest - (total - product)
