"""Sums of the magnitudes of entries, of their squares, and of rounding errors."""

from functools import partial
from math import prod

import numpy as np

from ....moduli import NONFINITE_ROW
from ....typing import Array
from ..layout import flat_parts, listed, straighten, tall
from ..threads import ranges, run_each
from . import entries, norms


def row_sums(
    x: Array, largest: Array, norm_bits: int, shifts: Array | None = None
) -> tuple[Array, Array]:
    """Sum squares and magnitudes of each row, in one pass."""
    sentinel = norms.is_sentinel(largest)
    one, two = norms.power_factors(
        np.where(sentinel, NONFINITE_ROW, norm_bits - largest)
    )
    source, across = straighten(x)
    flat, columns = flat_parts(source), norms.column_factors(shifts)
    rows, parts = x.shape[:-1], 1 + np.iscomplexobj(x)
    squares, totals = np.zeros((2, prod(rows)), np.int64)
    factors = one.reshape(-1), two.reshape(-1), columns, parts
    if across:
        given, each = (entries.row_sums_outer, listed(flat)), x.shape[-1]
    else:
        given, each = (entries.row_sums_inner, tall(flat)), x.shape[-1]
    run = partial(given[0], given[1], *factors)
    run_each(
        lambda r: run(*r, squares, totals),
        ranges(len(squares), smallest=128 if across else 16, each=each),
    )
    for out in (squares, totals):
        out[sentinel.reshape(-1)] = 0
    return squares.reshape(rows), totals.reshape(rows)


def sum_squares(
    x: Array, factors: tuple[Array, Array], shifts: Array | None, unit: float = 0.0
) -> Array:
    """Sum squares of magnitudes times factors of their rows, or of errors if `unit`."""
    source, across = straighten(x)
    flat, rows = flat_parts(source), x.shape[:-1]
    parts, length = 1 + np.iscomplexobj(x), flat.shape[-1]
    if not across:
        out = np.zeros(rows, np.int64)
        one, two = (t.reshape(-1) for t in factors)
        given = tall(flat), one, two, norms.column_factors(shifts, parts), unit
        run_each(
            lambda r: norms.square_sums_inner(*given, *r, out.reshape(-1)),
            ranges(out.size, smallest=16, each=length // 3),
        )
        return out
    one, two = (np.repeat(t, parts) for t in factors)
    given = listed(flat), one, two, norms.column_factors(shifts), unit
    lanes = np.zeros(prod(rows) * parts, np.int64)
    run_each(
        lambda r: norms.square_sums_outer(*given, *r, lanes),
        ranges(len(lanes), smallest=256, each=flat.shape[-2] // 3),
    )
    found: Array = lanes.reshape(*rows, parts).sum(axis=-1)
    return found


def error_sums(
    x: Array, exponents: Array, bits: int, shifts: Array | None = None
) -> Array:
    """Sum the squares of rounding errors of each row."""
    out = sum_squares(x, norms.power_factors(exponents), shifts, 2.0**bits)
    out[norms.is_sentinel(exponents)] = 0
    return out
