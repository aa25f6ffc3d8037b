"""Array-library fallbacks of smallest_cosines and column_exponents."""

from functools import reduce

import numpy as np

from ..moduli import NONFINITE_ROW, ZERO_ROW
from ..typing import Array
from .family import namespace


def smallest_cosines(
    x: Array, y: Array, of_x: tuple[Array, Array], of_y: tuple[Array, Array], bits: int
) -> Array:
    """Multiply all pairs of rows, of norm 1, and keep the smallest."""
    xp = namespace(x)
    left = unit_rows(x, *of_x, bits)
    right = left if y is x else unit_rows(y, *of_y, bits)
    products = left @ right.swapaxes(-1, -2)
    out_x, out_y = (_is_left_out(e) for e, _ in (of_x, of_y))
    out = out_x[..., np.newaxis] | out_y[..., np.newaxis, :]
    return xp.minimum(xp.where(out, np.float32(1), products), 1).min(axis=(1, 2))


def _is_left_out(largest: Array) -> Array:
    """Tell rows of zeros, and those with a NaN or an Inf."""
    return (largest == ZERO_ROW) | (largest >= NONFINITE_ROW)


def unit_rows(
    x: Array, largest: Array, sums: Array, norm_bits: int, left_out: float = 0
) -> Array:
    """Divide magnitudes by the norms of their rows, but in rows that are left out."""
    xp = namespace(x)
    some = ~_is_left_out(largest)
    e = xp.where(some, -largest, 0)[..., np.newaxis]
    squares = xp.zeros(x.shape)
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        part = xp.where(some[..., np.newaxis], part.astype(np.float64), left_out)
        # In two steps, since 2^-e may be none of the numbers of float64.
        squares += xp.ldexp(xp.ldexp(part, e // 2), e - e // 2) ** 2
    norms = xp.sqrt(xp.where(some, sums, 1).astype(np.float64)) * 2.0**-norm_bits
    return (xp.sqrt(squares) / norms[..., np.newaxis]).astype(np.float32)


def column_exponents(x: Array, largest: Array) -> Array:
    """Find the extreme exponents of the columns, of the matrices of a stack."""
    xp = namespace(x)
    least = np.finfo(x.dtype).minexp + 1
    finite = (largest < NONFINITE_ROW)[..., np.newaxis]
    base = xp.maximum(largest, least)[..., np.newaxis]
    found = []
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        some = (part != 0) & finite
        e = xp.frexp(xp.where(some, part, 0))[1]
        each = xp.maximum(e, least) - base, e, -e
        found.append([xp.where(some, t, ZERO_ROW).max(axis=-2) for t in each])
    of_parts = [xp.stack(t, axis=-2) for t in found]
    return reduce(xp.maximum, of_parts).astype(np.int32)
