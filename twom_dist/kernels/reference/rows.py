"""Statistics of rows, one entry after the other."""

from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import reduce
from math import ceil, frexp, isqrt
from typing import Any

import numpy as np

from ...moduli import NAN_ROW, NONFINITE_ROW, ZERO_ROW, ScalingRule
from ...typing import Array
from ..analysis import HostAnalysis
from ..statistics import (
    COUNTED,
    FAR,
    FURTHEST,
    NONE,
    Ask,
    RowStatistics,
    smallest_cosines,
    sum_columns,
)
from .rounding import ceil_scaled, shift_columns


def measure(
    x: Array,
    norm_bits: int,
    asks: Collection[Ask] = (),
    *,
    largest: Array | None = None,
    shifts: Array | None = None,
) -> RowStatistics:
    """Find what is asked for, one after the other."""
    shifted = shift_columns(x, shifts)
    if largest is None:
        largest = _find_largest(shifted)
    found = RowStatistics(largest)
    if "squares" in asks or "totals" in asks:
        squares, totals = _sum_rows(shifted, largest, norm_bits)
        totals = totals if "totals" in asks else None
        found = found._replace(squares=squares, totals=totals)
    if "columns" in asks:
        found = found._replace(columns=_find_extremes(x, largest))
    if "octaves" in asks:
        each = octaves(shifted, largest)
        counts = np.stack([(each <= end).sum(axis=-1) for end in COUNTED], axis=-1)
        found = found._replace(octaves=counts.astype(np.int32))
    return found


def parts_of(x: Array) -> list[Array]:
    """Real and imaginary part, or the real matrix alone."""
    return [x.real, x.imag] if np.iscomplexobj(x) else [x]


def _find_largest(x: Array) -> Array:
    top = reduce(np.maximum, map(abs, parts_of(x))).max(axis=-1, initial=0)
    found = np.where(top == 0, ZERO_ROW, np.frexp(top)[1])
    found = np.where(np.isinf(top), NONFINITE_ROW, found)
    return np.where(np.isnan(top), NAN_ROW, found).astype(np.int32)


def _sum_rows(x: Array, largest: Array, norm_bits: int) -> tuple[Array, Array]:
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


def _find_extremes(x: Array, largest: Array) -> Array:
    """Find the extreme exponents of the parts of each column that are not 0."""
    if x.ndim > 2:
        each = [_find_extremes(*t) for t in zip(x, largest, strict=True)]
        return np.array(each, np.int32).reshape(*x.shape[:-2], 3, x.shape[-1])
    out = np.full((3, x.shape[1]), ZERO_ROW, np.int32)
    least = np.finfo(x.dtype).minexp + 1
    for column, values in enumerate(x.T):
        found = [
            (e := frexp(t)[1], max(e, least) - max(int(of_row), least))
            for part in parts_of(values)
            for t, of_row in zip(part, largest, strict=True)
            if t != 0 and of_row < NONFINITE_ROW
        ]
        if found:
            exponents, relative = zip(*found, strict=True)
            out[:, column] = max(relative), max(exponents), -min(exponents)
    return out


def choose_exponents(largest: Array, squares: Array, rule: ScalingRule) -> Array:
    """Apply the rule to each row."""
    pairs = zip(largest.flat, squares.flat, strict=True)
    found = np.array([rule.exponent(int(e), int(s)) for e, s in pairs], np.int32)
    return found.reshape(largest.shape)


def error_sums(
    x: Array, measured: RowStatistics, rule: ScalingRule, shifts: Array | None = None
) -> Array:
    """Sum the squares of rounding errors."""
    exponents = choose_exponents(measured.largest, measured.squares, rule)
    x = shift_columns(x, shifts)
    found = np.zeros(exponents.shape, np.int64)
    for i in np.ndindex(found.shape):
        e = int(exponents[i])
        if e >= NONFINITE_ROW:
            continue
        for part in (t for value in x[i] for t in (value.real, value.imag)):
            scaled = Fraction(float(part)) * Fraction(2) ** e
            found[i] += ceil(abs(scaled - round(scaled)) * 2**rule.norm_bits) ** 2
    return found


def octaves(x: Array, largest: Array, shifts: Array | None = None) -> Array:
    """Find the octaves of entries below the largest of their rows."""
    x = shift_columns(x, shifts)
    largest_part = reduce(np.maximum, map(abs, parts_of(x)))
    below = largest[..., np.newaxis] - np.frexp(largest_part)[1]
    found = np.where(below < FURTHEST, below, FAR)
    masked = (largest == ZERO_ROW) | (largest >= NONFINITE_ROW)
    none = (largest_part == 0) | masked[..., np.newaxis]
    return np.where(none, NONE, found).astype(np.uint8)


def multiply_octaves(
    x: Array, y: Array, least: Array | None = None, enough: Any = None
) -> Array:
    """Find the least sum of octaves of each pair of rows."""
    found = np.full((len(x), len(y)), NONE, np.uint8) if least is None else least
    for left, right in zip(x.T, y.T, strict=True):
        np.minimum(found, left[:, np.newaxis] + right, out=found)
    return found


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
    """Measure all, and take the few numbers."""
    asks: tuple[Any, ...] = ("squares", "totals", *["columns"] * columns)
    both = zip(operands, shifts or [None] * len(operands), strict=True)
    found = [measure(x, norm_bits, asks, shifts=e) for x, e in both]
    sums = sum_columns(found[0].columns, found[-1].columns) if columns else None
    cosines = smallest_cosines(found, operands[0].shape[-1])
    own = engine, operands, norm_bits, rule, shifts, found
    return HostAnalysis(*own, cosines, sums)
