"""Scale: the exponents of rows and their factors, by one kernel from entry to factor.

The stages that `Engine` has for this are apart, since tiles of a row combine between
them. Where a tile is all of its rows, threads need not meet there.
"""

from typing import Any

import numpy as np

from ...moduli import NONFINITE_ROW, ScalingRule
from ...typing import Array
from .compiled import inner, kernel
from .encoded import GROUP
from .norms import (
    MASKS,
    column_factors,
    largest_bits_inner,
    largest_bits_outer,
    read_exponents,
    rule_exponents,
    split_power,
    split_powers,
    square_sums_inner,
    square_sums_outer,
)


def scaling_of(
    x: Array, across: bool, shifts: Array | None, rule: ScalingRule, out: Array
) -> tuple[Any, ...]:
    """List what `scale_groups` takes beside x and factors; exponents go to `out`."""
    parts, mask = 1 if across else x.shape[3], MASKS[x.dtype.char]
    return (
        column_factors(shifts, parts, x.dtype),
        column_factors(shifts, parts),
        mask,
        (rule.power, np.uint64(rule.leading), rule.norm_bits),
        np.zeros(out.size, mask.dtype),
        out.reshape(-1),
    )


@kernel
def scale_groups(x, across, factors, scaling, lo, hi):  # type: ignore[no-untyped-def]
    """Scale the rows of groups lo..hi of x, which is as for `encode_rows`."""
    count, rows = factors.shape[1:]
    groups = -(-rows // GROUP)
    first = lo // groups * rows + lo % groups * GROUP
    last = hi // groups * rows + min(rows, hi % groups * GROUP)
    one, two = factors[0].reshape(-1), factors[1].reshape(-1)
    if across:
        lanes = x.reshape(count, x.shape[1], rows * x.shape[3])
        _scale_across(lanes, *scaling, first, last, one, two)
    else:
        tall = x.reshape(count * rows, x.shape[2] * x.shape[3])
        _scale_along(tall, *scaling, first, last, one, two)


@inner
def _relate(e, norm_bits, one, two):  # type: ignore[no-untyped-def]
    """Write the factors of magnitudes that are squared, 2^(norm_bits - e)."""
    for i in range(e.size):
        sentinel = abs(e[i]) >= NONFINITE_ROW // 2
        one[i], two[i] = split_power(e[i] if sentinel else norm_bits - e[i])


@inner
def _scale_along(  # type: ignore[no-untyped-def]
    x, own_columns, columns, mask, rule, bits, out, lo, hi, one, two
):
    """Scale rows lo..hi of x[rows, t].

    own_columns, columns: what multiplies each t, in the precision of x and in double,
    or nothing.
    """
    own, (power, leading, norm_bits) = slice(lo, hi), rule
    e = out[own]
    largest_bits_inner(x, own_columns, mask, lo, hi, bits)
    read_exponents(bits.view(x.dtype)[own], e)
    _relate(e, norm_bits, one[own], two[own])
    sums = np.empty(len(out), np.int64)
    square_sums_inner(x, one, two, columns, 0.0, lo, hi, sums)
    rule_exponents(e, sums[own], power, leading, norm_bits, e)
    split_powers(e, one[own], two[own])


@inner
def _scale_across(  # type: ignore[no-untyped-def]
    x, own_columns, columns, mask, rule, bits, out, lo, hi, one, two
):
    """Scale rows lo..hi of x[matrices, k, rows * parts], which are its lanes."""
    own, (power, leading, norm_bits) = slice(lo, hi), rule
    e, count = out[own], len(x) * x.shape[2]
    parts = count // len(out)
    first, last = lo * parts, hi * parts
    lanes, sums = np.zeros(count, bits.dtype), np.zeros(count, np.int64)
    largest_bits_outer(x, own_columns, mask, first, last, lanes)
    for i in range(first, last):
        bits[i // parts] = max(bits[i // parts], lanes[i])
    read_exponents(bits.view(x.dtype)[own], e)
    _relate(e, norm_bits, one[own], two[own])
    of_lanes = np.empty((2, count))
    for i in range(first, last):
        of_lanes[0, i], of_lanes[1, i] = one[i // parts], two[i // parts]
    square_sums_outer(x, of_lanes[0], of_lanes[1], columns, 0.0, first, last, sums)
    totals = np.zeros(hi - lo, np.int64)
    for i in range(first, last):
        totals[i // parts - lo] += sums[i]
    rule_exponents(e, totals, power, leading, norm_bits, e)
    split_powers(e, one[own], two[own])
