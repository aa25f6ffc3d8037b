"""The smallest cosines between rows of magnitudes, by NumPy."""

import numpy as np

from ...moduli import NONFINITE_ROW, ZERO_ROW
from ...typing import Array


def smallest_cosines(
    x: Array,
    y: Array,
    of_x: tuple[Array, Array],
    of_y: tuple[Array, Array],
    bits: int,
    places: Array,
) -> Array:
    """Multiply all pairs of rows, of norm 1, and keep the smallest."""
    left, right = (
        _unit_rows(t[places], e[places], sums[places], bits)
        for t, (e, sums) in ((x, of_x), (y, of_y))
    )
    products = left @ right.swapaxes(-1, -2)
    out_x, out_y = (_is_left_out(e[places]) for e, _ in (of_x, of_y))
    out = out_x[..., np.newaxis] | out_y[..., np.newaxis, :]
    found: Array = np.where(out, np.float32(1), products)
    return np.minimum(found, 1).min(axis=(1, 2))


def _is_left_out(largest: Array) -> Array:
    """Tell rows of zeros, and those with a NaN or an Inf."""
    return (largest == ZERO_ROW) | (largest >= NONFINITE_ROW)


def _unit_rows(x: Array, largest: Array, sums: Array, norm_bits: int) -> Array:
    """Divide magnitudes by the norms of their rows, but in rows that are left out."""
    some = ~_is_left_out(largest)
    e = np.where(some, -largest, 0)[..., np.newaxis]
    squares = np.zeros(x.shape)
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        part = np.where(some[..., np.newaxis], part.astype(np.float64), 0)
        # In two steps, since 2^-e may be none of the numbers of float64.
        squares += np.ldexp(np.ldexp(part, e // 2), e - e // 2) ** 2
    norms = np.sqrt(np.where(some, sums, 1).astype(np.float64)) * 2.0**-norm_bits
    return (np.sqrt(squares) / norms[..., np.newaxis]).astype(np.float32)
