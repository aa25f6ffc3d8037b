"""Scale: the exponents of rows and their factors, by one kernel from entry to factor.

The stages that `Engine` has for this are apart, since tiles of a row combine between
them. Where a tile is all of its rows, threads need not meet there.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....moduli import ScalingRule
from ....typing import Array
from ..analysis.norms import (
    MASKS,
    column_factors,
    exponents_across,
    exponents_along,
    relate,
    rule_exponents,
    split_powers,
    square_sums_inner,
    squares_across,
)
from ..jit import inner
from ..planes import GROUP


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
    return *columns, MASKS[dtype.char], numbers_of(rule)


@cache
def numbers_of(rule: ScalingRule) -> tuple[int, Any, int]:
    """List what `rule_exponents` takes of a rule."""
    return rule.power, np.uint64(rule.leading), rule.norm_bits


@inner
def find_factors(given, exponents, known, scaling, lo, hi, start, end, factors):
    """Find factors[t, matrix, row], two of each row of groups start..end of lo..hi.

    given: x, across, rows and what else `quantise_groups` begins with. Exponents are
    chosen, and written, by what is `known` (the largest ones, sums of squares and the
    rule) or by `scaling` (what multiplies each column, in the precision of x and in
    double, the mask of magnitudes and the rule), unless both are None.
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
    own = slice(first, last)
    e = exponents[own]
    if known is not None:
        largest, squares, (power, leading, bits) = known
        rule_exponents(largest[own], squares[own], power, leading, bits, e)
    if scaling is not None:
        own_columns, columns, mask, (power, leading, bits) = scaling
        sums = np.zeros(last - first, np.int64)
        if across:
            lanes, parts = x.reshape(count, x.shape[1], rows * x.shape[3]), x.shape[3]
            exponents_across(lanes, own_columns, mask, parts, first, last, e)
            relate(e, bits, one[own], two[own])
            squares_across(lanes, one, two, columns, parts, first, last, sums)
        else:
            tall = x.reshape(count * rows, x.shape[2] * x.shape[3])[own]
            exponents_along(tall, own_columns, mask, e)
            relate(e, bits, one[own], two[own])
            of_rows = one[own], two[own], columns
            square_sums_inner(tall, *of_rows, 0.0, 0, last - first, sums)
        rule_exponents(e, sums, power, leading, bits, e)
    split_powers(e, one[own], two[own])
