"""Norm pass: largest exponent, square sum and scaling exponent of each row.

Rows may lie contiguous (``inner`` kernels) or across memory (``outer`` kernels: the
transposed matrix is contiguous, and the rows are its vector lanes).
"""

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

# Bits of a magnitude, by the character of the real type: arrays have kernels' dtypes.
MASKS: dict[str, Any] = {
    "f": np.array([2**31 - 1], np.int32),
    "d": np.array([2**63 - 1], np.int64),
}
# The mask, the bits below exponents, and the least exponent.
FORMATS = {
    x: (mask, mask.dtype.type(np.finfo(x).nmant), int(np.finfo(x).minexp))
    for x, mask in MASKS.items()
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
def largest_bits_outer(x, columns, mask, lo, hi, out):  # type: ignore[no-untyped-def]
    """Maximum of the magnitude bits over k of x[matrices, k, rows * parts].

    lo..hi: of the lanes of all matrices, one after the other.
    """
    take_widest()
    width, shifted = x.shape[2], columns.size > 0
    for matrix in range(lo // width, -(-hi // width)):
        start = matrix * width
        first, last = max(lo - start, 0), min(hi - start, width)
        lanes = out[start + first : start + last]
        for t in range(x.shape[1]):
            row = x[matrix, t, first:last]
            for j in range(lanes.size):
                value = row[j] * columns[t] if shifted else row[j]
                lanes[j] = max(lanes[j], bits_of(value) & mask)


NO_EXPONENT = -(1 << 20)  # below every difference of two exponents


@kernel
def extreme_bits_inner(  # type: ignore[no-untyped-def]
    bits, kept, fields, mask, shift, lo, hi, first, last, relative, high, low
):
    """Extremes of the magnitude bits of each row of bits[matrices, rows, t].

    `lo` to `hi` count the rows of all matrices; t from `first` to `last`. For each t of
    a matrix, `kept` is the mask of magnitudes, or 0 to leave t out, and `fields` the
    exponent that `relative` refers to. `low` holds the bits less 1, so that a zero
    counts as the largest number.
    """
    for i in range(lo, hi):
        matrix = i // bits.shape[1]
        row = bits[matrix, i % bits.shape[1], first:last]
        own, base = kept[matrix, first:last], fields[matrix, first:last]
        top, most, least = relative[i], high[i], low[i]
        for t in range(row.size):
            magnitude = row[t] & own[t]
            field = max(magnitude >> shift, 1) - base[t]
            top = max(top, field if magnitude != 0 else NO_EXPONENT)
            most = max(most, magnitude)
            least = min(least, (magnitude - 1) & mask)
        relative[i], high[i], low[i] = top, most, least


@kernel
def extreme_bits_outer(bits, kept, fields, mask, shift, lo, hi, relative, high, low):  # type: ignore[no-untyped-def]
    """Find the same over the middle axis of bits[matrices, t, lanes]."""
    width = bits.shape[2]
    for matrix in range(lo // width, -(-hi // width)):
        start = matrix * width
        first, last = max(lo - start, 0), min(hi - start, width)
        here = slice(start + first, start + last)
        top, most, least = relative[here], high[here], low[here]
        for t in range(bits.shape[1]):
            row, own = bits[matrix, t, first:last], kept[matrix, t]
            base = fields[matrix, t]
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
def square_sums_outer(x, factor1, factor2, columns, unit, lo, hi, out):  # type: ignore[no-untyped-def]
    """Sum the same squares over k of x[matrices, k, rows * parts]; lo..hi as above."""
    take_widest()
    width, shifted = x.shape[2], columns.size > 0
    for matrix in range(lo // width, -(-hi // width)):
        start = matrix * width
        first, last = max(lo - start, 0), min(hi - start, width)
        own = slice(start + first, start + last)
        lanes, f1, f2 = out[own], factor1[own], factor2[own]
        for t in range(x.shape[1]):
            row = x[matrix, t, first:last]
            column = columns[t] if shifted else 1.0
            for j in range(lanes.size):
                magnitude = np.abs(np.float64(row[j]))
                if shifted:
                    magnitude *= column
                lanes[j] += _square(magnitude, f1[j], f2[j], unit)


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
def exponents_along(x, columns, mask, e):  # type: ignore[no-untyped-def]
    """Find the largest exponents of all rows of x[rows, t]; mask: an array of it."""
    bits = np.zeros(len(x), mask.dtype)
    largest_bits_inner(x, columns, mask[0], 0, len(x), bits)
    read_exponents(bits.view(x.dtype), e)


@inner
def exponents_across(x, columns, mask, parts, lo, hi, e):  # type: ignore[no-untyped-def]
    """Find e[hi - lo] of rows lo..hi of x[matrices, k, rows * parts]."""
    first, last = lo * parts, hi * parts
    bits = np.zeros(hi - lo, mask.dtype)
    lanes = np.zeros(len(x) * x.shape[2], mask.dtype)
    largest_bits_outer(x, columns, mask[0], first, last, lanes)
    for i in range(first, last):
        bits[i // parts - lo] = max(bits[i // parts - lo], lanes[i])
    read_exponents(bits.view(x.dtype), e)


@inner
def squares_across(x, one, two, columns, parts, lo, hi, sums):  # type: ignore[no-untyped-def]
    """Add squares of rows lo..hi to sums[hi - lo], by two factors of each of all."""
    first, last = lo * parts, hi * parts
    wide = np.empty((2, len(x) * x.shape[2]))
    for i in range(first, last):
        wide[0, i], wide[1, i] = one[i // parts], two[i // parts]
    lanes = np.zeros(wide.shape[1], np.int64)
    square_sums_outer(x, wide[0], wide[1], columns, 0.0, first, last, lanes)
    for i in range(first, last):
        sums[i // parts - lo] += lanes[i]


def power_factors(exponents: Array) -> Array:
    """Two float64 factors whose product is 2^e; zeros for the sentinel rows."""
    factors = np.empty((2, *exponents.shape))
    one, two = factors.reshape(2, -1)
    # A copy: what other workers computed arrives read-only, a type of its own.
    split_powers(exponents.astype(np.int32).reshape(-1), one, two)
    return factors


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


def choose_exponents(largest: Array, sums: Array, rule: ScalingRule) -> Array:
    """Apply the rule to each row."""
    leading = np.uint64(rule.leading)
    # Copies: what other workers computed arrives read-only, a type of its own.
    given = largest.flatten(), sums.flatten()
    out = np.empty(given[0].size, dtype=np.int32)
    rule_exponents(*given, rule.power, leading, rule.norm_bits, out)
    return out.reshape(largest.shape)
