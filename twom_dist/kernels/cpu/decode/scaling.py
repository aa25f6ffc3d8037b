"""Scaling and writing of a piece, one step after the other: 4 to 6 of `Engine.decode`.

`finish` does them at once where there are no scalars.
"""

from math import ldexp

import numpy as np

from ..compiled import inner
from ..width import take_widest

# Exponents of the two factors of step 4 in the contract.
FIRST_LOW, FIRST_HIGH = -1000, 600
_SECOND_LOW = -1022

ONE, REAL, COMPLEX, NONE = 1, 2, 3, 0


def scalar_mode(factor: complex) -> int:
    """Say how a scalar multiplies: not at all, by 1, by parts, or as a complex."""
    if factor == 0:
        return NONE
    if factor == 1:
        return ONE
    return REAL if complex(factor).imag == 0 else COMPLEX


@inner(_nrt=False)
def scale_down(v, components, at, row, columns, one):  # type: ignore[no-untyped-def]
    """Multiply v[component, part, at...] by 2^e1, and 2^min(e2, 0): step 4.

    `one`: scratch. Returns the largest e.
    """
    take_widest()
    bits, count = one.view(np.int64), len(columns)
    largest, smallest = np.int64(0), np.int64(0)
    for c in range(count):
        e = -(row + columns[c])
        bits[c] = (min(max(e, FIRST_LOW), FIRST_HIGH) + 1023) << 52
        largest, smallest = max(largest, e), min(smallest, e)
    for part in range(v.shape[1]):
        for component in range(components):
            own = v[component, part, at : at + count]
            for c in range(count):
                own[c] *= one[c]
    if smallest < FIRST_LOW:
        for c in range(count):
            e2 = -(row + columns[c]) - FIRST_LOW
            bits[c] = (min(max(e2, _SECOND_LOW), 0) + 1023) << 52
        for part in range(v.shape[1]):
            for component in range(components):
                own = v[component, part, at : at + count]
                for c in range(count):
                    own[c] *= one[c]
    return largest


@inner(_nrt=False)
def scale_up(v, components, at, row, columns):  # type: ignore[no-untyped-def]
    """Multiply v[component, part, at...] by 2^max(e2, 0) of step 4; rare."""
    for c in range(len(columns)):
        e2 = -(row + columns[c]) - FIRST_HIGH
        if e2 > 0:
            for part in range(v.shape[1]):
                for component in range(components):
                    v[component, part, at + c] = ldexp(v[component, part, at + c], e2)


@inner(_nrt=False)
def normalise(v, count):  # type: ignore[no-untyped-def]
    """Round the sum of both components to the first: the end of step 4."""
    take_widest()
    for part in range(v.shape[1]):
        for c in range(count):
            high, low = v[0, part, c], v[1, part, c]
            total = high + low
            v[0, part, c] = total
            v[1, part, c] = low - (total - high) if np.isfinite(total) else 0.0


@inner(_nrt=False)
def scale(v, mode, re, im, count):  # type: ignore[no-untyped-def]
    """v *= alpha; nothing for 1."""
    take_widest()
    if mode in (REAL, NONE):
        for part in range(v.shape[1]):
            for c in range(count):
                v[0, part, c] *= re
    elif mode == COMPLEX:
        for c in range(count):
            x, y = v[0, 0, c], v[0, 1, c]
            v[0, 0, c] = re * x - im * y
            v[0, 1, c] = re * y + im * x


@inner(_nrt=False)
def add_scaled(v, at, count, own, mode, re, im):  # type: ignore[no-untyped-def]
    """v += beta c, of which own[count * parts], from `at` on."""
    take_widest()
    parts = v.shape[1]
    if mode == COMPLEX:
        re_out, im_out = v[0, 0, at : at + count], v[0, 1, at : at + count]
        for c in range(count):
            x, y = np.float64(own[2 * c]), np.float64(own[2 * c + 1])
            re_out[c] += re * x - im * y
            im_out[c] += re * y + im * x
    else:
        factor = 1.0 if mode == ONE else re
        for part in range(parts):
            out = v[0, part, at : at + count]
            for c in range(count):
                out[c] += factor * np.float64(own[parts * c + part])


@inner(_nrt=False)
def _finish(x, real):  # type: ignore[no-untyped-def]
    """Round, make zeros positive and every NaN the same: step 6."""
    rounded = real(x) + real(0)
    return rounded if rounded == rounded else real(np.nan)


@inner(_nrt=False)
def write(v, component, at, count, out):  # type: ignore[no-untyped-def]
    """Write out[count * parts], from `at` on."""
    take_widest()
    real = out.dtype.type
    re = v[component, 0, at : at + count]
    if v.shape[1] == 1:
        for c in range(count):
            out[c] = _finish(re[c], real)
    else:
        im = v[component, 1, at : at + count]
        for c in range(count):
            out[2 * c] = _finish(re[c], real)
            out[2 * c + 1] = _finish(im[c], real)
