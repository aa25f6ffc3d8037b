"""The few numbers that mostly decide about a product, by a kernel of what a look found.

Rounding errors are summed only where they decide: no device waits for the question.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ....moduli import NONFINITE_ROW, ZERO_ROW, ScalingRule
from ....typing import Array
from ...stack_summary import MARGIN, column_bits
from ...survey import Surveyed, Weighed
from ..compiled import inner, kernel
from ..threads import run_each
from .norms import (
    column_factors,
    rule_exponents,
    split_powers,
    square_sums_inner,
    square_sums_outer,
)
from .survey import Look, cut_rows, look


def weigh(
    operands: Sequence[Array],
    norm_bits: int,
    *,
    columns: bool,
    rule: ScalingRule | None,
    meanwhile: object = None,
) -> Weighed:
    """Look at all rows, and reduce what is found; see `kernels.survey.Weigh`."""
    found = look(operands, norm_bits, columns)
    x, y, k = found[0], found[-1], operands[0].shape[-1]
    given = x.sums, y.sums, x.extremes, y.extremes
    left, right, *sums = _summarise(*given, k, column_bits(k))
    return Weighed(
        (left, right),
        sums if columns else None,
        partial(_find_largest_error, found, rule),
        partial(_list_surveyed, found),
        found,
    )


def _list_surveyed(found: Sequence[Look]) -> list[Surveyed]:
    return [x.surveyed() for x in found]


def _find_largest_error(found: Sequence[Look], rule: ScalingRule | None) -> float:
    """Find the largest sum of a row, in one loop over those of both operands."""
    assert rule is not None
    of_rule = rule.power, np.uint64(rule.leading), rule.norm_bits
    pieces, work = [], 0
    for one in found:
        rows, entries = len(one.largest), one.entries.size
        given = one.entries, one.across, one.largest, one.sums, of_rule
        for lo, hi, _ in cut_rows(1, rows, one.across, entries // rows // 3):
            pieces.append((*given, column_factors(None), lo, hi))
        work += entries // 3
    each: list[int] = []

    def sum_errors(piece: tuple[Any, ...]) -> None:
        each.append(_largest_error(*piece))

    run_each(sum_errors, pieces, work)
    return float(max(each))


@kernel
def _summarise(x, y, of_x, of_y, k, bits):  # type: ignore[no-untyped-def]
    """Return what `stack_summary.summarise` does of one matrix a side.

    x, y: sums (2, rows); of_x, of_y: extremes (places, 3, k), or none.
    """
    one, two, both = np.int64(0), np.int64(0), np.int64(0)
    for t in range(k if len(of_x) > 0 else 0):
        a, b = np.int64(of_x[0, 0, t]), np.int64(of_y[0, 0, t])
        for place in range(1, len(of_x)):
            a = max(a, of_x[place, 0, t])
        for place in range(1, len(of_y)):
            b = max(b, of_y[place, 0, t])
        if a != ZERO_ROW:
            one += np.int64(1) << max(2 * a + bits, 0)
        if b != ZERO_ROW:
            two += np.int64(1) << max(2 * b + bits, 0)
        if a != ZERO_ROW and b != ZERO_ROW:
            both += np.int64(1) << max(a + b + bits, 0)
    return _smallest_cosine(x, k), _smallest_cosine(y, k), one, two, both


@inner
def _smallest_cosine(sums, k):  # type: ignore[no-untyped-def]
    """Return the smallest of `stack_summary.find_cosines`, and 1."""
    found = 1.0
    for i in range(sums.shape[1]):
        square, total = np.float64(sums[0, i]), np.float64(sums[1, i])
        if square > 0.0:
            found = min(found, total / np.sqrt(square * k) * (1 - MARGIN))
    return found


@kernel
def _largest_error(x, across, largest, sums, rule, columns, lo, hi):  # type: ignore[no-untyped-def]
    """Return the largest of `Looks.error_sums` of rows lo..hi of one matrix.

    x[0, row, k, part], or x[0, k, row, part] if `across`; columns: nothing.
    """
    power, leading, norm_bits = rule
    count, parts, unit = hi - lo, x.shape[3], 2.0**norm_bits
    e, factors = np.empty(count, np.int32), np.empty((2, count))
    rule_exponents(largest[lo:hi], sums[0, lo:hi], power, leading, norm_bits, e)
    split_powers(e, factors[0], factors[1])
    errors = np.zeros(count, np.int64)
    if across:
        width, first = x.shape[2] * parts, lo * parts
        of_lanes, lanes = np.empty((2, width)), np.zeros(width, np.int64)
        for j in range(count * parts):
            for t in range(2):
                of_lanes[t, first + j] = factors[t, j // parts]
        given = x.reshape(1, x.shape[1], width), of_lanes[0], of_lanes[1]
        square_sums_outer(*given, columns, unit, first, hi * parts, lanes)
        for j in range(count * parts):
            errors[j // parts] += lanes[first + j]
    else:
        own = x.reshape(x.shape[1], x.shape[2] * parts)[lo:hi]
        given = own, factors[0], factors[1]
        square_sums_inner(*given, columns, unit, 0, count, errors)
    for i in range(count):
        if e[i] >= NONFINITE_ROW // 2:
            errors[i] = 0
    return errors.max()
