"""Sums of rounding errors."""

from math import prod

import numpy as np

from ....typing import Array
from ..layout import flat_parts, listed, straighten, tall
from ..threads import ranges, run_each
from . import norms


def error_sums(
    x: Array, exponents: Array, bits: int, shifts: Array | None = None
) -> Array:
    """Sum the squares of rounding errors of each row."""
    source, across = straighten(x)
    flat, rows = flat_parts(source), x.shape[:-1]
    parts, unit, factors = (
        1 + np.iscomplexobj(x),
        2.0**bits,
        norms.power_factors(exponents),
    )
    if not across:
        out = np.zeros(rows, np.int64)
        one, two = (t.reshape(-1) for t in factors)
        given = tall(flat), one, two, norms.column_factors(shifts, parts), unit
        run_each(
            lambda r: norms.square_sums_inner(*given, *r, out.reshape(-1)),
            ranges(out.size, smallest=16, each=flat.shape[-1] // 3),
        )
    else:
        one, two = (np.repeat(t, parts) for t in factors)
        given = listed(flat), one, two, norms.column_factors(shifts), unit
        lanes = np.zeros(prod(rows) * parts, np.int64)
        run_each(
            lambda r: norms.square_sums_outer(*given, *r, lanes),
            ranges(len(lanes), smallest=256, each=flat.shape[-2] // 3),
        )
        out = lanes.reshape(*rows, parts).sum(axis=-1)
    out[norms.is_sentinel(exponents)] = 0
    return out
