"""Magnitudes of entries, and their products, one by one."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import ceil, floor, isqrt, ldexp, sqrt
from typing import Any

import numpy as np

from ...moduli import NONFINITE_ROW, ZERO_ROW, ScalingRule
from ...typing import Array
from .. import stack_summary
from ..survey import Surveyed, Weighed
from .rounding import ceil_scaled, shift_columns


def row_sums(
    x: Array, largest: Array, norm_bits: int, shifts: Array | None = None
) -> tuple[Array, Array]:
    """Sum squares and magnitudes of each row."""
    x = shift_columns(x, shifts)
    found = np.zeros((2, *largest.shape), np.int64)
    for i in np.ndindex(largest.shape):
        e = int(largest[i])
        if not ZERO_ROW < e < NONFINITE_ROW:
            continue
        for value in x[i]:
            parts = (value.real, value.imag)
            square = sum(ceil_scaled(t, norm_bits - e) ** 2 for t in parts)
            found[(0, *i)] += square
            found[(1, *i)] += max(0, isqrt(square) - 2)
    return found[0], found[1]


def error_sums(
    x: Array, exponents: Array, bits: int, shifts: Array | None = None
) -> Array:
    """Sum the squares of rounding errors."""
    x = shift_columns(x, shifts)
    found = np.zeros(len(x), np.int64)
    for i, e in enumerate(map(int, exponents)):
        if e >= NONFINITE_ROW:
            continue
        for part in (t for value in x[i] for t in (value.real, value.imag)):
            scaled = Fraction(float(part)) * Fraction(2) ** e
            found[i] += ceil(abs(scaled - round(scaled)) * 2**bits) ** 2
    return found


def magnitudes(x: Array, largest: Array, shifts: Array | None = None) -> Array:
    """Round the magnitudes of entries, relative to their rows, to 8 bits."""
    x = shift_columns(x, shifts)
    found = np.zeros(x.shape, np.float32)
    for i, e in enumerate(largest):
        if not ZERO_ROW < e < NONFINITE_ROW:
            continue
        for j, value in enumerate(x[i]):
            if value != 0:
                parts = (ldexp(t, -int(e)) for t in (value.real, value.imag))
                found[i, j] = max(sqrt(sum(t * t for t in parts)), 2.0**-126)
    return (found.view(np.uint32) >> 16).astype(np.uint16)


def multiply_digits(x: Array, y: Array, digits: int) -> Array:
    """Sum products of digits in 64 bits."""
    if digits == 0:
        meet: Array = (x != 0).astype(np.int64) @ (y != 0).T.astype(np.int64)
        return meet
    if digits == 1:
        a, b = (_scaled(t, 6) for t in (x, y))
        return a @ b.T
    (a, low_a), (b, low_b) = (np.divmod(_scaled(t, 13), 128) for t in (x, y))
    return 128 * (a @ b.T) + a @ low_b.T + low_a @ b.T


def find_open(
    products: Array, left: Array, right: Array, factor: float, most: int
) -> tuple[Array, Array, Array] | None:
    """Compare all pairs."""
    squares = products.astype(np.float64) ** 2
    rows, columns = np.nonzero(squares * factor < left[:, np.newaxis] * right)
    if len(rows) > most:
        return None
    return rows, columns, products[rows, columns].astype(np.int64)


def bound_pairs(
    x: Array, y: Array, rows: Array, columns: Array, bits: int
) -> tuple[Array, Array]:
    """Sum products, and find the largest term, of each pair."""
    scaled = [_scaled(t, bits) for t in (x, y)]
    exponents = [np.frexp(_values(t))[1] - 1 for t in (x, y)]
    sums, terms = np.zeros(len(rows), np.int64), np.full(len(rows), ZERO_ROW, np.int32)
    for p, (i, j) in enumerate(zip(rows, columns, strict=True)):
        sums[p] = (scaled[0][i] * scaled[1][j]).sum()
        some = (x[i] != 0) & (y[j] != 0)
        each = (exponents[0][i] + exponents[1][j])[some]
        terms[p] = each.max(initial=ZERO_ROW)
    return sums, terms


def _scaled(x: Array, bits: int) -> Array:
    """Cut magnitudes to so many bits."""
    found = [floor(Fraction(t) * 2**bits) for t in _values(x).flat]
    return np.array(found, np.int64).reshape(x.shape)


def _values(x: Array) -> Array:
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def survey(
    engine: Any,
    operands: Sequence[Array],
    norm_bits: int,
    *,
    totals: bool,
    columns: bool,
    shifts: Sequence[Array] | None = None,
) -> list[Surveyed]:
    """Look by one stage after the other."""
    found = []
    for x, e in zip(operands, shifts or [None] * len(operands), strict=True):
        largest = engine.largest_exponents(x, e)
        sums = row_sums(x, largest, norm_bits, e)
        ends = engine.column_exponents(x, largest) if columns else None
        found.append(Surveyed(largest, sums[0], sums[1] if totals else None, ends))
    return found


def weigh(
    engine: Any,
    operands: Sequence[Array],
    norm_bits: int,
    *,
    columns: bool,
    rule: ScalingRule | None,
    meanwhile: object = None,
) -> Weighed:
    """Weigh by one stage after the other."""
    found = engine.survey(operands, norm_bits, totals=True, columns=columns)
    stacks = [Surveyed(*(t if t is None else t[np.newaxis] for t in x)) for x in found]
    cosines, sums = stack_summary.summarise(stacks, operands[0].shape[1])

    def largest_error() -> float:
        exponents = [engine.choose_exponents(*x[:2], rule) for x in found]
        each = zip(operands, exponents, strict=True)
        return float(max(error_sums(*x, norm_bits).max() for x in each))

    both = float(cosines[0, 0]), float(cosines[-1, 0])
    of_columns = None if sums is None else sums[:, 0].tolist()
    return Weighed(both, of_columns, largest_error, lambda: found)


class Magnitudes:
    """These stages, as an engine has them."""

    waits = False
    weigh, survey = weigh, survey
    row_sums = staticmethod(row_sums)
    error_sums = staticmethod(error_sums)
    summarise = staticmethod(stack_summary.summarise)
    largest_errors = staticmethod(partial(stack_summary.largest_errors, error_sums))
    magnitudes = staticmethod(magnitudes)
    multiply_digits = staticmethod(multiply_digits)
    find_open = staticmethod(find_open)
    bound_pairs = staticmethod(bound_pairs)
