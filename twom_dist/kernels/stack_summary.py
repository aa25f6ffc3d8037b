"""A few numbers that decide about each matrix of a stack, for engines on the host."""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from ..moduli import ZERO_ROW
from ..typing import Array
from .survey import Summary, Surveyed

# Each formula of angles has less than ten operations, relative errors of 2^-53.
MARGIN = 2.0**-48


def find_cosines(squares: Array, totals: Array, k: int) -> Array:
    """Bound the cosines of rows with ones from below, by their sums of `row_sums`.

    In float64, each operation rounded by itself; 1 without a finite nonzero entry.
    """
    squares, totals = squares.astype(np.float64), totals.astype(np.float64)
    # Integers: those that are not 0 are 1 at least.
    norms = np.sqrt(np.maximum(squares, 1.0) * k)
    found: Array = totals / norms * (1 - MARGIN)
    found[squares == 0] = 1.0
    return found


def column_bits(k: int) -> int:
    """Return the bits of the units of `sum_columns`: sums stay below 2^62."""
    return min(40, 62 - k.bit_length())


def sum_columns(left: Array, right: Array) -> Array:
    """Sum squares of the columns' largest entries, and products of both sides' ones.

    Parameters
    ----------
    left, right : (count, k) int32
        The first of the exponents of `Engine.column_exponents`: at most 0.

    Returns
    -------
    (3, count) int64
        Of left, right and both, in units of ``2^-column_bits(k)``, to which each power
        of two is rounded up; columns that are 0 add nothing.
    """
    a, b = left.astype(np.int64), right.astype(np.int64)
    bits, some = column_bits(a.shape[-1]), (a != ZERO_ROW, b != ZERO_ROW)
    each = (2 * a, some[0]), (2 * b, some[1]), (a + b, some[0] & some[1])
    terms = [
        np.where(own, np.int64(1) << np.maximum(e + bits, 0), 0) for e, own in each
    ]
    return np.stack([t.sum(axis=-1) for t in terms])


def choose(x: Array, places: Array) -> Array:
    """Take some matrices of a stack: all of them without a copy."""
    return x if len(places) == len(x) else x[places]


def summarise(found: Sequence[Surveyed], k: int) -> Summary:
    """Find the numbers by NumPy; see `Looks.summarise`."""
    cosines = []
    for x in found:
        assert x.totals is not None
        own = find_cosines(x.squares, x.totals, k)
        cosines.append(own.min(axis=-1, initial=1.0))
    ends = found[0].column_exponents, found[-1].column_exponents
    columns = None
    if ends[0] is not None and ends[1] is not None:
        columns = sum_columns(ends[0][:, 0], ends[1][:, 0])
    return Summary(np.stack(cosines), columns)


def largest_errors(
    error_sums: Callable[..., Array],
    operands: Sequence[Array],
    exponents: Sequence[Array],
    bits: int,
    places: Array,
) -> Array:
    """Find the largest sums from those of all rows; see `Looks.largest_errors`."""
    found = []
    for x, e in zip(operands, exponents, strict=True):
        x, e = choose(x, places), choose(e, places)
        rows = x.reshape(-1, x.shape[-1])
        sums = error_sums(rows, e.reshape(-1), bits).reshape(e.shape)
        found.append(sums.max(axis=-1, initial=0))
    return reduce(np.maximum, found)
