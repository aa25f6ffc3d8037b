"""Decode: int8 residues -> floating-point tile, by the contract's written order."""

from dataclasses import dataclass
from functools import cache
from math import ldexp

import numpy as np
from numba import njit

from ...moduli import ResidueSystem
from ...typing import Array
from .hexagonal import lift_to_cell, times_half_root

_PIECE = 256
# Residues of four products are summed before the sums are loaded and stored again.
_GROUP = 4
# Exponents of the two factors of step 4 in the contract.
_FIRST_LOW, _FIRST_HIGH = -1000, 600
_SECOND_LOW = -1022

ONE, REAL, COMPLEX, NONE = 1, 2, 3, 0


@dataclass(frozen=True)
class DecodeTables:
    """Digits of the weights and of M, and the factors of the quotient."""

    weights: Array
    modulus: Array
    quotient: Array
    digit_bits: int


@cache
def decode_tables(system: ResidueSystem) -> DecodeTables:
    """Tabulate weights[part, digit, product], padded with zeros to whole groups."""
    b, count = system.digit_bits, system.num_digits
    padded = -(-system.num_products // _GROUP) * _GROUP
    weights = np.zeros((system.parts, count, padded))
    for part, row in enumerate(system.weights):
        digits = np.array([system.digits(w) for w in row], dtype=np.float64)
        weights[part, :, : len(row)] = digits.T
    m = system.modulus_product
    quotient = [(1 << (t * b)) / m if t >= 0 else 0.0 for t in (count - 1, count - 2)]
    return DecodeTables(
        weights,
        np.array(system.digits(m), dtype=np.float64),
        np.array(quotient),
        b,
    )


def scalar_mode(factor: complex) -> int:
    """Say how a scalar multiplies: not at all, by 1, by parts, or as a complex."""
    if factor == 0:
        return NONE
    if factor == 1:
        return ONE
    return REAL if complex(factor).imag == 0 else COMPLEX


@njit(nogil=True, cache=True, fastmath={"contract"})
def _sum_group(r, weights, q, count, d):  # type: ignore[no-untyped-def]
    """d[digit] += sum_g weights[digit, q + g] r[g], exact integers: fused or not."""
    r0, r1, r2, r3 = r[0], r[1], r[2], r[3]
    for t in range(d.shape[0]):
        w = weights[t]
        w0, w1, w2, w3 = w[q], w[q + 1], w[q + 2], w[q + 3]
        total = d[t]
        for c in range(count):
            pair = w2 * r2[c] + w3 * r3[c]
            total[c] += w0 * r0[c] + w1 * r1[c] + pair


@njit(nogil=True, cache=True)
def _reduce_digits(d, modulus, quotient, digit_bits, count, y):  # type: ignore[no-untyped-def]
    """Follow steps 1 and 2 of the contract on d[digit, piece].

    Returns how many digits are ``-2^(b-1)``.
    """
    last = d.shape[0] - 1
    unit = 2.0**digit_bits
    inverse, half = 1.0 / unit, unit / 2
    leading, second = d[last], d[max(0, last - 1)]
    for c in range(count):
        q = leading[c] * quotient[0]
        if last > 0:
            q += second[c] * quotient[1]
        y[c] = np.rint(q)
    for t in range(last + 1):
        digit, m = d[t], modulus[t]
        for c in range(count):
            digit[c] -= y[c] * m
    halves = np.int64(0)
    for t in range(last):
        digit, above = d[t], d[t + 1]
        for c in range(count):
            carry = np.floor((digit[c] + half) * inverse)
            digit[c] -= carry * unit
            above[c] += carry
            halves += np.int64(digit[c] == -half)
    return halves


@njit(nogil=True, cache=True)
def _sum_digits(d, unit, halves, count, out):  # type: ignore[no-untyped-def]
    """Sum the digits from the least up, to out[word, piece]: step 3."""
    _add_digits(d, unit, count, out)
    if halves > 0:
        _mirror_digits(d, unit, count, out[0])
        _add_digits(d, unit, count, out)


@njit(nogil=True, cache=True)
def _add_digits(d, unit, count, out):  # type: ignore[no-untyped-def]
    """Sum the digits as they are."""
    high, lowest = out[0], d[0]
    for c in range(count):
        high[c] = lowest[c]
    if len(out) == 2:
        out[1, :count] = 0.0
    scale = 1.0
    for t in range(1, d.shape[0]):
        scale *= unit
        digit = d[t]
        if len(out) == 2:
            _add_with_error(digit, scale, count, high, out[1])
        else:
            for c in range(count):
                high[c] = digit[c] * scale + high[c]


@njit(nogil=True, cache=True)
def _add_with_error(digit, scale, count, high, low):  # type: ignore[no-untyped-def]
    """high += digit scale, low the error: that term is 0, or the larger one."""
    for c in range(count):
        x = digit[c] * scale
        total = x + high[c]
        low[c] += high[c] - (total - x)
        high[c] = total


@njit(nogil=True, cache=True)
def _mirror_digits(d, unit, count, v):  # type: ignore[no-untyped-def]
    """Give negative integers the digits of their magnitudes, negated; rare."""
    half = unit / 2
    for c in range(count):
        if v[c] < 0.0:
            carry = 0.0
            for t in range(d.shape[0]):
                digit = carry - d[t, c]
                carry = 0.0
                if digit >= half and t < d.shape[0] - 1:
                    digit -= unit
                    carry = 1.0
                d[t, c] = -digit


@njit(nogil=True, cache=True)
def _power_bits(row, columns, count, one, two):  # type: ignore[no-untyped-def]
    """Write 2^e1, 2^min(e2, 0) of step 4 for one row, as the bits of normal float64s.

    Returns the largest e.
    """
    largest = np.int64(0)
    for c in range(count):
        e = -(row + columns[c])
        e1 = min(max(e, _FIRST_LOW), _FIRST_HIGH)
        e2 = min(max(e - e1, _SECOND_LOW), 0)
        one[c] = (e1 + 1023) << 52
        two[c] = (e2 + 1023) << 52
        largest = max(largest, e)
    return largest


@njit(nogil=True, cache=True)
def _scale_up(v, row, columns, count):  # type: ignore[no-untyped-def]
    """Multiply v[part, word, piece] by 2^max(e2, 0) of step 4; rare."""
    for c in range(count):
        e2 = -(row + columns[c]) - _FIRST_HIGH
        if e2 > 0:
            for part in range(v.shape[0]):
                for word in range(v.shape[1]):
                    v[part, word, c] = ldexp(v[part, word, c], e2)


@njit(nogil=True, cache=True)
def decode_rows(  # type: ignore[no-untyped-def]
    residues,
    rows,
    columns,
    weights,
    modulus,
    quotient,
    digit_bits,
    hexagonal,
    alpha_mode,
    alpha,
    beta_mode,
    beta,
    c_in,
    lo,
    hi,
    out,
):
    """Write rows lo..hi of out[word, m, n, parts]."""
    products = residues.shape[0]
    n = out.shape[2]
    words = out.shape[0]
    parts, digits, padded = weights.shape
    d = np.empty((parts, digits, _PIECE))
    v = np.zeros((parts, words, _PIECE))
    r = np.zeros((_GROUP, _PIECE))
    pair, unit = np.empty((2, _PIECE)), 2.0**digit_bits
    one_bits, two_bits = np.empty(_PIECE, np.int64), np.empty(_PIECE, np.int64)
    one, two = one_bits.view(np.float64), two_bits.view(np.float64)
    for i in range(lo, hi):
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            d[:] = 0.0
            for q in range(0, padded, _GROUP):
                for g in range(_GROUP):
                    target = r[g]
                    if q + g < products:
                        source = residues[q + g, i, start : start + count]
                        for c in range(count):
                            target[c] = np.float64(source[c])
                    else:
                        target[:] = 0.0
                for part in range(parts):
                    _sum_group(r, weights[part], q, count, d[part])
            own = columns[start : start + count]
            largest = _power_bits(rows[i], own, count, one_bits, two_bits)
            halves = np.int64(0)
            for part in range(parts):
                given = modulus, quotient, digit_bits, count
                halves += _reduce_digits(d[part], *given, v[part, 0])
            if hexagonal:
                halves += lift_to_cell(d, modulus, quotient, digit_bits, count)
            for part in range(parts):
                pieces = v[part]
                if hexagonal and part == 1:
                    _sum_digits(d[part], unit, halves, count, pair)
                    times_half_root(pair, count, pieces)
                else:
                    _sum_digits(d[part], unit, halves, count, pieces)
                for word in range(words):
                    piece = pieces[word]
                    if hexagonal and part == 0:
                        piece[:count] *= 0.5
                    for c in range(count):
                        piece[c] = piece[c] * one[c] * two[c]
            _scale(v, alpha_mode, alpha.real, alpha.imag, parts, count)
            if largest > _FIRST_HIGH:
                _scale_up(v, rows[i], own, count)
            if beta_mode != NONE:
                _add_scaled(
                    v, c_in, i, start, beta_mode, beta.real, beta.imag, parts, count
                )
            if words == 2:
                _normalise(v, count)
            for word in range(words):
                for part in range(parts):
                    target_part = out[word, i, start : start + count, part]
                    source_part = v[part, word]
                    for c in range(count):
                        target_part[c] = source_part[c]
                        # Rounded by now: zeros become positive, every NaN the same.
                        x = target_part[c] + 0.0
                        target_part[c] = x if x == x else np.nan


@njit(nogil=True, cache=True)
def _normalise(v, count):  # type: ignore[no-untyped-def]
    """Round the sum of both words to the first: the end of step 4."""
    for part in range(v.shape[0]):
        for c in range(count):
            high, low = v[part, 0, c], v[part, 1, c]
            total = high + low
            v[part, 0, c] = total
            v[part, 1, c] = low - (total - high) if np.isfinite(total) else 0.0


@njit(nogil=True, cache=True)
def _scale(v, mode, re, im, parts, count):  # type: ignore[no-untyped-def]
    """v *= alpha; nothing for 1."""
    if mode in (REAL, NONE):
        for part in range(parts):
            for c in range(count):
                v[part, 0, c] *= re
    elif mode == COMPLEX:
        for c in range(count):
            x, y = v[0, 0, c], v[1, 0, c]
            v[0, 0, c] = re * x - im * y
            v[1, 0, c] = re * y + im * x


@njit(nogil=True, cache=True)
def _add_scaled(v, c_in, i, start, mode, re, im, parts, count):  # type: ignore[no-untyped-def]
    """v += beta c."""
    if mode == COMPLEX:
        for c in range(count):
            x, y = np.float64(c_in[i, start + c, 0]), np.float64(c_in[i, start + c, 1])
            v[0, 0, c] += re * x - im * y
            v[1, 0, c] += re * y + im * x
    else:
        factor = 1.0 if mode == ONE else re
        for part in range(parts):
            for c in range(count):
                v[part, 0, c] += factor * np.float64(c_in[i, start + c, part])


def decode_tile(
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array,
    lo: int,
    hi: int,
) -> None:
    """Decode rows lo..hi of a tile into out, seen as (words, m, n, parts)."""
    tables = decode_tables(system)
    decode_rows(
        residues,
        rows,
        columns,
        tables.weights,
        tables.modulus,
        tables.quotient,
        tables.digit_bits,
        system.hexagonal,
        scalar_mode(alpha),
        complex(alpha),
        scalar_mode(beta),
        complex(beta),
        c,
        lo,
        hi,
        out,
    )


def as_parts(x: Array) -> Array:
    """View a C-contiguous array as (..., parts) of its real type."""
    parts = 2 if np.iscomplexobj(x) else 1
    return x.view(x.real.dtype).reshape(*x.shape, parts)
