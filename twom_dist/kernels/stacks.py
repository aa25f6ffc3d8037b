"""What is looked at of stacks, where an engine has no kernel of its own for it."""

from functools import reduce

import numpy as np

from ..moduli import NONFINITE_ROW, ZERO_ROW
from ..typing import Array
from .family import namespace


def unit_rows(x: Array, largest: Array, sums: Array, norm_bits: int) -> Array:
    """Divide magnitudes by the norms of their rows."""
    xp = namespace(x)
    some = (largest != ZERO_ROW) & (largest != NONFINITE_ROW)
    e = xp.where(some, -largest, 0)[..., np.newaxis]
    squares = xp.zeros(x.shape)
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        part = xp.where(some[..., np.newaxis], part.astype(np.float64), 0)
        # In two steps, since 2^-e may be none of the numbers of float64.
        squares += xp.ldexp(xp.ldexp(part, e // 2), e - e // 2) ** 2
    norms = xp.sqrt(xp.where(some, sums, 1).astype(np.float64)) * 2.0**-norm_bits
    return (xp.sqrt(squares) / norms[..., np.newaxis]).astype(np.float32)


def column_exponents(x: Array, largest: Array) -> Array:
    """Find the extreme exponents of the columns, of the matrices of a stack."""
    xp = namespace(x)
    least = np.finfo(x.dtype).minexp + 1
    finite = (largest != NONFINITE_ROW)[..., np.newaxis]
    base = xp.maximum(largest, least)[..., np.newaxis]
    found = []
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        some = (part != 0) & finite
        e = xp.frexp(xp.where(some, part, 0))[1]
        each = xp.maximum(e, least) - base, e, -e
        found.append(
            [xp.where(some, t, ZERO_ROW).max(axis=-2, initial=ZERO_ROW) for t in each]
        )
    of_parts = [xp.stack(t, axis=-2) for t in found]
    return reduce(xp.maximum, of_parts).astype(np.int32)
