"""Bounds of all pairs of rows of two small matrices, by two kernels.

Everything that `tiles.look.every_pair` does by stages, which are for any size. A small
product takes less time than the calls of these stages.
"""

from collections.abc import Sequence
from math import ldexp
from typing import Any

import numpy as np

from ...stack_summary import MAGNITUDE_MARGIN, MARGIN
from ..compiled import inner, kernel
from ..threads import run_each
from .dots import multiply_rows
from .entries import relative_magnitudes
from .magnitudes import scale
from .norms import column_factors
from .survey import Look, cut_rows

# Entries of both operands met: beyond, an int8 product gains more than calls take. And
# the longest rows whose sums of digits are exact: k 90^2 < 2^24.
_MOST, _LONGEST = 2**24, 2048


def find_largest_ratio(
    found: Sequence[Look], norm_bits: int, limit: float, bits: int
) -> float | None:
    """Return the largest bound of rho^2 above a limit, 0 without any; see `Weighed`."""
    x, y, k = found[0], found[-1], found[0].length
    m, n = len(x.largest), len(y.largest)
    if m * n * k > _MOST or k > _LONGEST:
        return None
    taken, pieces = [], []
    for one in found:
        rows = len(one.largest)
        out = np.empty((rows, k), np.uint16), np.empty((rows, k), np.float32)
        given = one.entries[0], one.across, column_factors(None), one.largest
        for lo, hi, _ in cut_rows(1, rows, one.across, 4 * k):
            pieces.append((*given, lo, hi, *out))
        taken.append((*out, one.sums))
    run_each(_take_piece, pieces, 4 * k * (m + n))
    unit = 2.0 ** (-2 * norm_bits)
    numbers = k, unit, limit, limit * 2.0**-24 / (1 + MAGNITUDE_MARGIN), bits
    twins = len(found) == 1

    largest: list[float] = []

    def bound(piece: tuple[int, int, int]) -> None:
        largest.append(_bound_all(taken[0], taken[-1], twins, numbers, *piece[:2]))

    # A term of a pair takes a thirtieth of a nanosecond.
    run_each(bound, cut_rows(1, m, False, n * k // 30), m * n * k // 30)
    return max(largest)


def _take_piece(piece: tuple[Any, ...]) -> None:
    _take(*piece)


@kernel
def _take(x, across, columns, largest, lo, hi, out, digits):  # type: ignore[no-untyped-def]
    """Find the magnitudes of rows lo..hi, and their leading digits as numbers."""
    relative_magnitudes(x, across, columns, largest, lo, hi, out)
    for i in range(lo, hi):
        row, to = out[i], digits[i]
        for t in range(to.size):
            to[t] = np.float32(np.int32(scale(np.uint32(row[t]), np.uint32(6))))


@inner
def _weigh_rows(sums, k, unit):  # type: ignore[no-untyped-def]
    """Return squares, cosines and sines of rows; squares are 0 without entries."""
    out = np.empty((3, sums.shape[1]))
    for i in range(sums.shape[1]):
        square, total = np.float64(sums[0, i]), np.float64(sums[1, i])
        cosine = total / np.sqrt(max(square, 1.0) * k) * (1 - MARGIN)
        out[0, i], out[1, i] = square * unit, cosine
        out[2, i] = np.sqrt((1 - cosine) * (1 + cosine)) * (1 + MARGIN)
    return out


@inner
def _bound_pair(x, y, of_x, of_y, i, j, limit, bits):  # type: ignore[no-untyped-def]
    """Bound rho^2 of a pair by all terms; 0 if there are none, or angles close it."""
    cosine = of_x[1, i] * of_y[1, j] - of_x[2, i] * of_y[2, j] - MARGIN
    square = cosine * cosine
    if cosine > 0.0 and square > 0.0 and (1 + MARGIN) / square <= limit:
        return 0.0
    a, b, up, none = x[i], y[j], np.uint32(bits), np.int32(-(1 << 20))
    total, largest = np.uint64(0), none
    for t in range(a.size):
        p, q = np.uint32(a[t]), np.uint32(b[t])
        total += np.uint64(scale(p, up)) * np.uint64(scale(q, up))
        term = np.int32((p >> np.uint32(7)) + (q >> np.uint32(7))) - np.int32(254)
        largest = max(largest, term if p != 0 and q != 0 else none)
    if largest == none:
        return 0.0
    lower = max(
        np.float64(np.int64(total)) * 2.0 ** (-2 * bits), ldexp(1.0, int(largest))
    )
    above = of_x[0, i] * of_y[0, j] * (1 + MAGNITUDE_MARGIN)
    return above / (lower * lower)


@kernel
def _bound_all(left, right, twins, numbers, lo, hi):  # type: ignore[no-untyped-def]
    """Return the largest bound above the limit, of rows lo..hi with all others.

    left, right: magnitudes, digits and sums; if twins, rows meet those from theirs on.
    """
    k, unit, limit, factor, bits = numbers
    of_x, of_y = _weigh_rows(left[2], k, unit), _weigh_rows(right[2], k, unit)
    found, n = 0.0, len(right[0])
    x, y, last = left[1], right[1], hi - 1
    for i in range(lo, hi, 4):
        # Past the last row there it is again.
        a, b = x[i], x[min(i + 1, last)]
        c, d = x[min(i + 2, last)], x[min(i + 3, last)]
        for j in range(i if twins else 0, n, 2):
            sums = multiply_rows(a, b, c, d, y[j], y[min(j + 1, n - 1)])
            for p in range(min(4, hi - i)):
                for q in range(min(2, n - j)):
                    s = np.float64(sums[4 * q + p])
                    both = of_x[0, i + p] * of_y[0, j + q]
                    # As `find_open` asks.
                    if (s * s) * factor < both and both > 0.0:
                        given = left[0], right[0], of_x, of_y, i + p, j + q
                        ratio = _bound_pair(*given, limit, bits)
                        found = max(found, ratio if ratio > limit else 0.0)
    return found
