"""Norm pass: largest exponent, square sum and scaling exponent of each row.

Rows may lie contiguous (``inner`` kernels) or across memory (``outer`` kernels: the
transposed matrix is contiguous, and the rows are its vector lanes).
"""

from functools import cache
from math import frexp, ldexp
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....moduli import NAN_ROW, NONFINITE_ROW, ZERO_ROW, ScalingRule
from ....typing import Array
from ..jit import inner, kernel
from ..units import take_widest

# By the character of the real type: the mask of a magnitude's bits, the bits below
# exponents, and the least exponent. Arrays have kernels' dtypes.
FORMATS: dict[str, Any] = {
    x: (np.array([mask], kind), kind(np.finfo(x).nmant), int(np.finfo(x).minexp))
    for x, mask, kind in (("f", 2**31 - 1, np.int32), ("d", 2**63 - 1, np.int64))
}


@intrinsic
def bits_of(typing_context: Any, x: Any) -> Any:
    """Return the bits of a number as an integer of its width."""
    kind = types.int32 if x.bitwidth == 32 else types.int64

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(kind.bitwidth))

    return kind(x), generate


@kernel
def largest_bits_inner(x, columns, mask, lo, hi, out):  # type: ignore[no-untyped-def]
    """Maximum of the magnitude bits of each row of x[rows, t].

    `columns`: what each t is multiplied by before, or nothing.
    """
    take_widest()
    shifted = columns.size > 0
    for i in range(lo, hi):
        row, largest = x[i], out[i]
        for t in range(row.size):
            value = row[t] * columns[t] if shifted else row[t]
            largest = max(largest, bits_of(value) & mask)
        out[i] = largest


@kernel
def largest_bits_outer(x, columns, mask, first, last, out):  # type: ignore[no-untyped-def]
    """Maximum of the magnitude bits over t of lanes first..last of x[t, lanes]."""
    take_widest()
    shifted = columns.size > 0
    for t in range(len(x)):
        row = x[t, first:last]
        for j in range(out.size):
            value = row[j] * columns[t] if shifted else row[j]
            out[j] = max(out[j], bits_of(value) & mask)


NO_EXPONENT = -(1 << 20)  # below every difference of two exponents


@kernel
def extreme_bits_inner(  # type: ignore[no-untyped-def]
    bits, kept, fields, mask, shift, first, last, relative, high, low
):
    """Extremes of the magnitude bits of each row of bits[rows, t], t first..last.

    For each of these, `kept` is the mask of magnitudes, or 0 to leave t out, and
    `fields` the exponent that `relative` refers to. `low` holds the bits less 1, so
    that a zero counts as the largest number.
    """
    for i in range(len(bits)):
        row, top, most, least = bits[i, first:last], relative[i], high[i], low[i]
        for t in range(row.size):
            magnitude = row[t] & kept[t]
            field = max(magnitude >> shift, 1) - fields[t]
            top = max(top, field if magnitude != 0 else NO_EXPONENT)
            most = max(most, magnitude)
            least = min(least, (magnitude - 1) & mask)
        relative[i], high[i], low[i] = top, most, least


@kernel
def extreme_bits_outer(bits, kept, fields, mask, shift, top, most, least):  # type: ignore[no-untyped-def]
    """Find the same over the first axis of bits[t, lanes]."""
    for t in range(len(bits)):
        row, own, base = bits[t], kept[t], fields[t]
        for j in range(row.size):
            # By max and min, which become stores under a mask, a complex entry took
            # 4.0 ns in place of 2.0; to read it alone takes 1.5 (one core, Zen 2).
            magnitude, before = row[j] & own, top[j]
            field = magnitude >> shift
            field = (field if field > 1 else 1) - base
            field = field if magnitude != 0 else NO_EXPONENT
            top[j] = field if field > before else before
            largest, smallest = most[j], least[j]
            most[j] = magnitude if magnitude > largest else largest
            rest = (magnitude - 1) & mask
            least[j] = rest if rest < smallest else smallest


@inner
def _square(magnitude, f1, f2, unit):  # type: ignore[no-untyped-def]
    """ceil(y)^2 of y = |t| f1 f2, or ceil(|y - rint(y)| unit)^2.

    At least 1 where t != 0 and y underflows to 0.
    """
    y = magnitude * f1 * f2
    lost = y == 0.0 and magnitude != 0.0
    if unit > 0.0:
        y = np.abs(y - np.rint(y)) * unit
    ceiling = 1.0 if lost else np.ceil(y)
    # It has 20 bits: AVX2 converts and multiplies no wider integers.
    q = np.int64(np.int32(ceiling))
    return q * q


@kernel
def square_sums_inner(x, factor1, factor2, columns, unit, lo, hi, out):  # type: ignore[no-untyped-def]
    """Sum the squares of magnitudes, or of errors if `unit` > 0, along x[rows, t].

    `columns`: what each t is multiplied by before, or nothing.
    """
    take_widest()
    shifted = columns.size > 0
    for i in range(lo, hi):
        row, f1, f2 = x[i], factor1[i], factor2[i]
        total = np.int64(0)
        for t in range(row.size):
            magnitude = np.abs(np.float64(row[t]))
            if shifted:
                magnitude *= columns[t]
            total += _square(magnitude, f1, f2, unit)
        out[i] = total


@kernel
def square_sums_outer(x, factor1, factor2, columns, unit, first, last, out):  # type: ignore[no-untyped-def]
    """Sum the same squares over t of lanes first..last of x[t, lanes]."""
    take_widest()
    shifted = columns.size > 0
    for t in range(len(x)):
        row, column = x[t, first:last], columns[t] if shifted else 1.0
        for j in range(out.size):
            magnitude = np.abs(np.float64(row[j]))
            if shifted:
                magnitude *= column
            out[j] += _square(magnitude, factor1[j], factor2[j], unit)


@kernel
def rule_exponents(largest, sums, power, leading, norm_bits, out):  # type: ignore[no-untyped-def]
    """`ScalingRule.exponent` of each row, on unsigned integers."""
    for i in range(out.size):
        e = largest[i]
        if e >= NONFINITE_ROW:
            out[i] = e
        elif e == ZERO_ROW:
            out[i] = 0
        else:
            a = 31
            while a > 0 and (sums[i] >> (2 * a)) == 0:
                a -= 1
            fits = (np.uint64(sums[i]) << np.uint64(2 * (31 - a))) <= leading
            out[i] = power - a - (0 if fits else 1) + norm_bits - e


@kernel
def read_exponents(magnitudes, out):  # type: ignore[no-untyped-def]
    """Find the exponents of the largest magnitudes of rows."""
    for i in range(out.size):
        value = np.float64(magnitudes[i])
        if value == 0.0:
            out[i] = ZERO_ROW
        elif value == np.inf:
            out[i] = NONFINITE_ROW
        elif value != value:
            out[i] = NAN_ROW
        else:
            out[i] = frexp(value)[1]


@inner
def split_power(e):  # type: ignore[no-untyped-def]
    """Return two factors whose product is 2^e; zeros for sentinels.

    Halving e keeps both factors and, for results that matter, every intermediate
    product normal: |e| < 2300 for all of float64 and every residue system.
    """
    if abs(e) >= NONFINITE_ROW // 2:
        return 0.0, 0.0
    first = e // 2
    return ldexp(1.0, first), ldexp(1.0, e - first)


@kernel
def split_powers(exponents, one, two):  # type: ignore[no-untyped-def]
    """Write the two factors of each exponent."""
    for i in range(exponents.size):
        one[i], two[i] = split_power(exponents[i])


@inner
def relate(e, bits, one, two):  # type: ignore[no-untyped-def]
    """Write the factors that make magnitudes below 2^e less than 2^bits."""
    for i in range(e.size):
        sentinel = abs(e[i]) >= NONFINITE_ROW // 2
        one[i], two[i] = split_power(e[i] if sentinel else bits - e[i])


@inner
def exponents_across(x, columns, mask, parts, first, last, e):  # type: ignore[no-untyped-def]
    """Find the exponents of rows: lanes first..last of x[t, lanes] are their parts."""
    lanes, bits = np.zeros(last - first, mask.dtype), np.zeros(e.size, mask.dtype)
    largest_bits_outer(x, columns, mask[0], first, last, lanes)
    for i in range(lanes.size):
        bits[i // parts] = max(bits[i // parts], lanes[i])
    read_exponents(bits.view(x.dtype), e)


@inner
def squares_across(x, one, two, columns, unit, parts, first, last, sums):  # type: ignore[no-untyped-def]
    """Add squares of these rows to sums, by two factors of each."""
    wide, lanes = np.empty((2, last - first)), np.zeros(last - first, np.int64)
    for i in range(lanes.size):
        wide[0, i], wide[1, i] = one[i // parts], two[i // parts]
    square_sums_outer(x, wide[0], wide[1], columns, unit, first, last, lanes)
    for i in range(lanes.size):
        sums[i // parts] += lanes[i]


@kernel
def _replace_sentinels(exponents, out):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(out.size):
        own = exponents[i] >= NONFINITE_ROW
        out[i] = 0 if own else exponents[i]
        count += own
    return count


def finite_exponents(given: Array) -> tuple[Array, bool]:
    """Return exponents in a line, 0 for rows that are not finite, and if all are."""
    out = np.empty(given.size, np.int64)
    count = _replace_sentinels(given, out)
    return out, not count


def column_factors(
    shifts: Array | None, parts: int = 1, dtype: Any = np.float64
) -> Array:
    """Return 2^shifts, repeated for the parts of an entry; nothing without shifts."""
    if shifts is None:
        return np.empty(0, dtype)
    found: Array = np.repeat(np.ldexp(np.dtype(dtype).type(1), shifts), parts)
    return found


@cache
def numbers_of(rule: ScalingRule) -> tuple[int, Any, int]:
    """List what `rule_exponents` takes of a rule."""
    return rule.power, np.uint64(rule.leading), rule.norm_bits


def choose_exponents(largest: Array, sums: Array, rule: ScalingRule) -> Array:
    """Apply the rule to each row."""
    # Copies: what other workers computed arrives read-only, a type of its own.
    given = largest.flatten(), sums.flatten()
    out = np.empty(given[0].size, dtype=np.int32)
    rule_exponents(*given, *numbers_of(rule), out)
    return out.reshape(largest.shape)
