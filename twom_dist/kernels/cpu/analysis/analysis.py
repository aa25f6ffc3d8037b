"""The few numbers that usually decide the moduli, and sums of rounding errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....moduli import ZERO_ROW, ScalingRule
from ....typing import Array
from ...analysis import HostAnalysis
from ...statistics import MARGIN, RowStatistics, column_bits
from ..jit import inner, kernel
from .norms import choose_exponents
from .rows import measure_all

_NOTHING = np.empty((0, 3, 0), np.int32)


def analyse(
    engine: Any,
    operands: Sequence[Array],
    norm_bits: int,
    *,
    columns: bool,
    rule: ScalingRule | None,
    octaves: bool = False,
    shifts: Sequence[Array] | None = None,
    meanwhile: object = None,
) -> HostAnalysis:
    """Measure all rows side by side, and reduce what is found."""
    asked = {"columns": columns, "octaves": octaves}
    asks: Any = ["squares", "totals", *(name for name, own in asked.items() if own)]
    nothing = [None] * len(operands)
    found = measure_all(operands, norm_bits, asks, nothing, shifts)
    k, x, y = operands[0].shape[-1], found[0], found[-1]
    each = x.squares, x.totals, y.squares, y.totals
    sums = [t.reshape(-1, t.shape[-1]) for t in each]
    ends = [_NOTHING, _NOTHING]
    if x.columns is not None and y.columns is not None:
        ends = [t.reshape(-1, 3, k) for t in (x.columns, y.columns)]
    cosines = np.empty((2, len(sums[0])))
    of_columns = np.zeros((3, len(ends[0])), np.int64)
    _reduce(*sums, *ends, k, column_bits(k), cosines, of_columns)
    own = engine, operands, norm_bits, rule, shifts, found
    return HostAnalysis(*own, cosines[: len(found)], of_columns if columns else None)


@kernel
def _reduce(  # type: ignore[no-untyped-def]
    x_squares, x_totals, y_squares, y_totals, of_x, of_y, k, bits, cosines, sums
):
    """Find `statistics.smallest_cosines` and `sum_columns` of each matrix.

    Squares and totals (count, rows); of_x, of_y: columns (count, 3, k), or none.
    """
    for i in range(len(x_squares)):
        cosines[0, i] = _smallest_cosine(x_squares[i], x_totals[i], k)
        cosines[1, i] = _smallest_cosine(y_squares[i], y_totals[i], k)
    for i in range(len(of_x)):
        for t in range(k):
            a, b = np.int64(of_x[i, 0, t]), np.int64(of_y[i, 0, t])
            if a != ZERO_ROW:
                sums[0, i] += np.int64(1) << max(2 * a + bits, 0)
            if b != ZERO_ROW:
                sums[1, i] += np.int64(1) << max(2 * b + bits, 0)
            if a != ZERO_ROW and b != ZERO_ROW:
                sums[2, i] += np.int64(1) << max(a + b + bits, 0)


@inner
def _smallest_cosine(squares, totals, k):  # type: ignore[no-untyped-def]
    """Return the smallest of `statistics.smallest_cosines` of a matrix, and 1."""
    found = 1.0
    for i in range(squares.size):
        square, total = np.float64(squares[i]), np.float64(totals[i])
        if square > 0.0:
            found = min(found, total / np.sqrt(square * k) * (1 - MARGIN))
    return found


def error_sums(
    x: Array, measured: RowStatistics, rule: ScalingRule, shifts: Array | None = None
) -> Array:
    """Sum the squares of rounding errors of each row."""
    exponents = choose_exponents(measured.largest, measured.squares, rule)
    own, unit = None if shifts is None else [shifts], 2.0**rule.norm_bits
    # Rows are brought below 2^0 as those of the largest exponent -s would be.
    (found,) = measure_all([x], 0, ["squares"], [-exponents], own, unit)
    return found.squares
