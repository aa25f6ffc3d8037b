"""Sums of rows, one entry after the other, and the stages of a look."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import ceil, isqrt
from typing import Any

import numpy as np

from ...moduli import NONFINITE_ROW, ZERO_ROW, ScalingRule
from ...typing import Array
from .. import stack_summary
from ..survey import Surveyed, Weighed
from .octaves import count_octaves, multiply_octaves, octaves
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
    octaves = staticmethod(octaves)
    count_octaves = staticmethod(count_octaves)
    multiply_octaves = staticmethod(multiply_octaves)
