"""Scale: the exponents of rows and their factors, by one kernel from entry to factor.

The stages that `Engine` has for this are apart, since tiles of a row combine between
them. Where a tile is all of its rows, threads need not meet there.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....moduli import ScalingRule
from ....typing import Array
from ..compiled import inner
from ..encoded import GROUP
from ..look.norms import (
    MASKS,
    column_factors,
    largest_bits_inner,
    largest_bits_outer,
    read_exponents,
    relate,
    rule_exponents,
    split_powers,
    square_sums_inner,
    square_sums_outer,
)

# As arrays, which tell kernels their dtype.
_MASKS = {char: np.array([mask]) for char, mask in MASKS.items()}


def scaling_of(
    x: Array, across: bool, shifts: Array | None, rule: ScalingRule
) -> tuple[Any, ...]:
    """List what `find_factors` takes for exponents that are yet to be chosen."""
    if shifts is None:
        return _without_shifts(x.dtype, rule)
    parts = 1 if across else x.shape[3]
    columns = (column_factors(shifts, parts, t) for t in (x.dtype, np.float64))
    return *columns, *_without_shifts(x.dtype, rule)[2:]


@lru_cache(maxsize=256)
def _without_shifts(dtype: Any, rule: ScalingRule) -> tuple[Any, ...]:
    columns = column_factors(None, dtype=dtype), column_factors(None)
    return *columns, _MASKS[dtype.char], numbers_of(rule)


@cache
def numbers_of(rule: ScalingRule) -> tuple[int, Any, int]:
    """List what `rule_exponents` takes of a rule."""
    return rule.power, np.uint64(rule.leading), rule.norm_bits


@inner
def find_factors(  # type: ignore[no-untyped-def]
    given, exponents, known, scaling, lo, hi, start, end, factors
):
    """Find factors[t, matrix, row], two of each row of groups start..end of lo..hi.

    given: x, across, rows and what else `quantise_groups` begins with. Exponents are
    chosen, and written, by what is `known` (the largest ones, sums of squares and the
    rule) or by `scaling`, unless both are None.
    """
    x, across, rows = given[:3]
    if across:
        # The first time of all: rows of x are those of many groups.
        if start > lo:
            return
        end = hi
    count, groups = len(x), -(-rows // GROUP)
    first = start // groups * rows + start % groups * GROUP
    last = end // groups * rows + min(rows, end % groups * GROUP)
    one, two = factors[0].reshape(-1), factors[1].reshape(-1)
    if known is not None:
        largest, squares, (power, leading, bits) = known
        given, e = (largest[first:last], squares[first:last]), exponents[first:last]
        rule_exponents(given[0], given[1], power, leading, bits, e)
    if scaling is None:
        split_powers(exponents[first:last], one[first:last], two[first:last])
    elif across:
        lanes = x.reshape(count, x.shape[1], rows * x.shape[3])
        _scale_across(lanes, *scaling, exponents, first, last, one, two)
    else:
        tall = x.reshape(count * rows, x.shape[2] * x.shape[3])
        own = slice(first, last)
        _scale_along(tall[own], *scaling, exponents[own], one[own], two[own])


@inner
def _scale_along(  # type: ignore[no-untyped-def]
    x, own_columns, columns, mask, rule, e, one, two
):
    """Scale x[rows, t].

    own_columns, columns: what multiplies each t, in the precision of x and in double,
    or nothing; mask: one number.
    """
    count, (power, leading, norm_bits) = len(x), rule
    bits, sums = np.zeros(count, mask.dtype), np.empty(count, np.int64)
    largest_bits_inner(x, own_columns, mask[0], 0, count, bits)
    read_exponents(bits.view(x.dtype), e)
    relate(e, norm_bits, one, two)
    square_sums_inner(x, one, two, columns, 0.0, 0, count, sums)
    rule_exponents(e, sums, power, leading, norm_bits, e)
    split_powers(e, one, two)


@inner
def _scale_across(  # type: ignore[no-untyped-def]
    x, own_columns, columns, mask, rule, out, lo, hi, one, two
):
    """Scale rows lo..hi of x[matrices, k, rows * parts], which are its lanes."""
    own, (power, leading, norm_bits) = slice(lo, hi), rule
    e, count = out[own], len(x) * x.shape[2]
    parts = count // len(out)
    first, last = lo * parts, hi * parts
    lanes = np.zeros(count, mask.dtype)
    bits, sums = np.zeros_like(lanes[: len(out)]), np.zeros(count, np.int64)
    largest_bits_outer(x, own_columns, mask[0], first, last, lanes)
    for i in range(first, last):
        bits[i // parts] = max(bits[i // parts], lanes[i])
    read_exponents(bits.view(x.dtype)[own], e)
    relate(e, norm_bits, one[own], two[own])
    of_lanes = np.empty((2, count))
    for i in range(first, last):
        of_lanes[0, i], of_lanes[1, i] = one[i // parts], two[i // parts]
    square_sums_outer(x, of_lanes[0], of_lanes[1], columns, 0.0, first, last, sums)
    totals = np.zeros(hi - lo, np.int64)
    for i in range(first, last):
        totals[i // parts - lo] += sums[i]
    rule_exponents(e, totals, power, leading, norm_bits, e)
    split_powers(e, one[own], two[own])
