"""Equilibration along k: op(A) D^-1 times D op(B), D diagonal, of powers of two.

Rows of op(A) and columns of op(B) are each scaled by one factor, so that spread along k
costs accuracy: the error is relative to ``||a_i|| ||b_j||``, which large columns of A
make large even where they meet small rows of B. By Cauchy-Schwarz

    sum_l |a_l| |b_l| <= sqrt(sum_l |a_l|^2) sqrt(sum_l |b_l|^2)

and the left side is what the norms become where ``|a_l| = |b_l|``. Products stay the
same, exactly: no entry leaves the normal numbers.
"""

from typing import Any

import numpy as np

from ...moduli import ZERO_ROW
from ...typing import Array

# Equilibration must gain at least this factor of the norms: data without spread keep
# their bits, which are those of any sub-block of the result.
GAIN = 2
_BITS = 40  # bits of a square that is summed


def choose_shifts(left: Array, right: Array, dtype: Any) -> Array | None:
    """Choose e of ``op(A)[:, l] 2^-e_l`` and ``op(B)[l] 2^e_l``.

    `left`, `right`: (3, k) exponents of the columns of op(A) and of the rows of op(B),
    all tiles together; see `Engine.measure`. All is integer arithmetic, so that equal
    ones give equal e: (k,) int32, or None where the norms gain less than `GAIN`.
    """
    (a, a_largest, a_least), (b, b_largest, b_least) = (
        x.astype(np.int64) for x in (left, right)
    )
    both = (a != ZERO_ROW) & (b != ZERO_ROW)
    if not both.any() or not _gains(a, b, both):
        return None
    e = _halve(a - b)
    e -= _halve(e[both].max() + e[both].min())
    # Columns that meet only zeros become as small as the smallest of the others.
    least = _halve((a + b)[both].min())
    e = np.where(both, e, np.where(b == ZERO_ROW, a - least, least - b))
    info = np.finfo(dtype)
    # Exponents of normal numbers; the factors have to be normal, too.
    low, high, most = info.minexp + 1, info.maxexp, info.maxexp - 8
    room_a, room_b = (np.maximum(0, -x - low) for x in (a_least, b_least))
    e = np.clip(e, np.maximum(a_largest - high, -room_b), room_a)
    e = np.minimum(e, high - b_largest)
    e = np.clip(e, -most, most)
    return e.astype(np.int32) if e.any() else None


def _halve(x: Any) -> Any:
    """Halve integers, towards zero: A and B may change places."""
    return np.sign(x) * (abs(x) // 2)


def _gains(a: Array, b: Array, both: Array) -> bool:
    """Tell whether the norms of the columns' largest entries gain a factor of `GAIN`.

    Entries are relative to their rows: a row times a power of two changes nothing.
    """
    bits = min(_BITS, 62 - len(a).bit_length())

    def add_up(exponents: Array) -> tuple[int, int]:
        top = int(exponents.max())
        terms = np.int64(1) << np.maximum(exponents - top + bits, 0)
        return int(terms.sum()), top

    each = 2 * a, 2 * b, a + b
    if not both.all():
        some = a != ZERO_ROW, b != ZERO_ROW, both
        each = each[0][some[0]], each[1][some[1]], each[2][some[2]]
    (of_a, top_a), (of_b, top_b), (of_both, top) = map(add_up, each)
    # sqrt(of_a 2^top_a of_b 2^top_b) >= GAIN of_both 2^top
    return of_a * of_b << (top_a + top_b - 2 * top) >= (GAIN * of_both) ** 2


def may_gain(columns: Any, k: int) -> Any:
    """Mark the matrices of stacks for which `choose_shifts` may find shifts.

    Or one, by the three numbers that `sum_columns` gives of it: wherever it gains, and
    where rounding leaves that open: k terms are rounded up, each by less than a unit.
    """
    of_a, of_b, of_both = columns
    gained = 1.0 * of_both - k
    least = GAIN * gained * (gained > 0)
    return (1.0 * of_a * of_b >= least * least) & (of_both > 0)
