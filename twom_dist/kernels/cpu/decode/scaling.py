"""Scaling and writing of a piece: steps 4 to 6 of `Engine.decode`."""

from math import ldexp

import numpy as np
from llvmlite import ir
from numba import types

from ..jit import inner, instructions
from ..units import take_widest

# Exponents of the two factors of step 4 in the contract.
_FIRST_LOW, FIRST_HIGH = -1000, 600
_SECOND_LOW = -1022

ONE, REAL, COMPLEX, NONE = 1, 2, 3, 0


@inner(_nrt=False)
def scalar_mode(factor):
    """Say how a complex scalar multiplies: not at all, by 1, by parts, or as it is."""
    if factor == 0:
        return NONE
    if factor == 1:
        return ONE
    return REAL if factor.imag == 0 else COMPLEX


@instructions(result=types.float64)
def _power(builder, e):
    """Return 2^e, a normal number."""
    kind = ir.IntType(64)
    biased = builder.add(e, ir.Constant(kind, 1023))
    return builder.bitcast(builder.shl(biased, ir.Constant(kind, 52)), ir.DoubleType())


@inner(_nrt=False)
def _multiply(v, components, at, row, columns, low, high):
    """Multiply by 2^e, e = -(row + columns), or the nearest from low to high.

    Returns the least and the largest e, or 0.
    """
    take_widest()
    smallest, largest = np.int64(0), np.int64(0)
    for part in range(v.shape[1]):
        for component in range(components):
            own = v[component, part, at : at + len(columns)]
            for c in range(len(columns)):
                e = -(row + columns[c])
                smallest, largest = min(smallest, e), max(largest, e)
                own[c] *= _power(min(max(e, low), high))
    return smallest, largest


@inner(_nrt=False)
def scale_down(v, components, at, row, columns):
    """Multiply v[component, part, at...] by 2^e1, and 2^min(e2, 0): step 4.

    Returns the largest e.
    """
    given = v, components, at
    smallest, largest = _multiply(*given, row, columns, _FIRST_LOW, FIRST_HIGH)
    if smallest < _FIRST_LOW:
        _multiply(*given, row + _FIRST_LOW, columns, _SECOND_LOW, 0)
    return largest


@inner(_nrt=False)
def scale_up(v, components, at, row, columns):
    """Multiply v[component, part, at...] by 2^max(e2, 0) of step 4; rare."""
    for c in range(len(columns)):
        e2 = -(row + columns[c]) - FIRST_HIGH
        if e2 > 0:
            for part in range(v.shape[1]):
                for component in range(components):
                    v[component, part, at + c] = ldexp(v[component, part, at + c], e2)


@inner(_nrt=False)
def normalise(v, count):
    """Round the sum of both components to the first: the end of step 4."""
    take_widest()
    for part in range(v.shape[1]):
        for c in range(count):
            high, low = v[0, part, c], v[1, part, c]
            total = high + low
            v[0, part, c] = total
            v[1, part, c] = low - (total - high) if np.isfinite(total) else 0.0


@inner(_nrt=False)
def scale(v, mode, re, im, count):
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
def add_scaled(v, at, count, own, mode, re, im):
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
def _finish(x, real):
    """Round, make zeros positive and every NaN the same: step 6."""
    rounded = real(x) + real(0)
    return rounded if rounded == rounded else real(np.nan)


@inner(_nrt=False)
def write(v, at, out):
    """Write v[part, at...]: out[columns * parts]."""
    take_widest()
    real, count = out.dtype.type, len(out) // len(v)
    re = v[0, at : at + count]
    if len(v) == 1:
        for c in range(count):
            out[c] = _finish(re[c], real)
    else:
        im = v[1, at : at + count]
        for c in range(count):
            out[2 * c] = _finish(re[c], real)
            out[2 * c + 1] = _finish(im[c], real)
