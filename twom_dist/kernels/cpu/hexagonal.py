"""Eisenstein integers by pieces: rounding to nearest points, and back to two parts.

These are the steps of `Engine.encode` and `Engine.decode` for hexagonal systems. Only
operations named `fused` may be fused.
"""

import numpy as np
from numba import types

from ..double_double import HALF_ROOT, INVERSE_ROOT
from .jit import inner, instructions
from .units import take_widest

_INVERSE_FIRST, _INVERSE_SECOND = INVERSE_ROOT
_HALF_FIRST, _HALF_SECOND = HALF_ROOT


@instructions(given=(types.float64,) * 3, result=types.float64)
def fma(builder, x, y, z):
    """x y + z, rounded once: an instruction, or the C library's fma."""
    return builder.fma(x, y, z)


@inner
def nearest_points(values, count, unit):
    """Make values[part, c] those of the nearest points.

    values[2 + part] are the multiples of `unit` that are taken off, none if that is 0.
    """
    take_widest()
    re_in, im_in, high_g, high_h = values[0], values[1], values[2], values[3]
    down = 1.0 / unit if unit > 0.0 else 0.0
    for c in range(count):
        re, im = re_in[c], im_in[c]
        x, y = np.abs(re), np.abs(im)
        first = y * _INVERSE_FIRST
        second = fma(y, _INVERSE_FIRST, -first) + y * _INVERSE_SECOND
        m, n = np.rint(x), np.rint(first)
        left = (first - n) + second
        r = np.rint(left)
        u, v = x - m, left - r
        one = 1.0 if np.abs(u) + 3.0 * np.abs(v) > 1.0 else 0.0
        re_sign, sign = np.copysign(1.0, re), np.copysign(1.0, im)
        g, h = re_sign * (2.0 * m), sign * (2.0 * n)
        g_units, h_units = np.rint(g * down), np.rint(h * down)
        high_g[c], high_h[c] = g_units, h_units
        # What is added is 2 |r| + 1 <= 2^28 + 1 at most.
        re_in[c] = (g - g_units * unit) + re_sign * (-one if u < 0.0 else one)
        more = 2.0 * r + (-one if v < 0.0 else one)
        im_in[c] = (h - h_units * unit) + sign * more


@inner(_nrt=False)
def count_off_lattice(d, count):
    """Count the points of d[digit, part, piece] whose parts differ in parity."""
    take_widest()
    odd = np.int64(0)
    for c in range(count):
        middle = 0.5 * (d[0, 0, c] + d[0, 1, c])
        odd += np.int64(middle != np.rint(middle))
    return odd


@inner(_nrt=False)
def lift_to_cell(d, modulus, quotient, unit, count):
    """Bring d[digit, part, piece] to one parity, by M in one part; rare.

    Returns how many digits are then ``-2^(b-1)``.
    """
    last = len(d) - 1
    below = max(0, last - 1)
    half, halves = unit / 2, np.int64(0)
    for c in range(count):
        middle = 0.5 * (d[0, 0, c] + d[0, 1, c])
        if middle == np.rint(middle):
            continue
        u, v = d[last, 0, c] * quotient[0], d[last, 1, c] * quotient[0]
        if last > 0:
            u += d[below, 0, c] * quotient[1]
            v += d[below, 1, c] * quotient[1]
        part = 1 if 3.0 * np.abs(v) - np.abs(u) > 1.0 else 0
        sign = -1.0 if (v if part == 1 else u) < 0.0 else 1.0
        carry = 0.0
        for t in range(last + 1):
            digit = d[t, part, c] - sign * modulus[t] + carry
            carry = np.floor((digit + half) / unit) if t < last else 0.0
            d[t, part, c] = digit - carry * unit
            halves += np.int64(d[t, part, c] == -half)
    return halves


@inner(_nrt=False)
def times_half_root(v, count):
    """Make v[component, 1, piece], those of h, the components of ``h sqrt(3) / 2``."""
    take_widest()
    for c in range(count):
        high = v[0, 1, c]
        product = high * _HALF_FIRST
        rest = fma(high, _HALF_FIRST, -product)
        rest += high * _HALF_SECOND + v[1, 1, c] * _HALF_FIRST
        total = product + rest
        v[0, 1, c] = total
        v[1, 1, c] = rest - (total - product)
