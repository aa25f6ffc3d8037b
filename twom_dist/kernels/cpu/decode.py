"""Decode: int8 residues -> floating-point tile, by the contract's written order."""

import threading
from dataclasses import dataclass
from functools import cache
from math import ldexp, prod

import numpy as np
from numba import njit

from ...moduli import ResidueSystem, combined_weights, form_of
from ...typing import Array
from .digits import (
    FORMS,
    GROUP,
    PIECE,
    add_digits,
    mirror_digits,
    reduce_digits,
    sum_residues,
)
from .hexagonal import count_off_lattice, lift_to_cell, times_half_root

# Exponents of the two factors of step 4 in the contract.
_FIRST_LOW, _FIRST_HIGH = -1000, 600
_SECOND_LOW = -1022

ONE, REAL, COMPLEX, NONE = 1, 2, 3, 0


@dataclass(frozen=True)
class DecodeTables:
    """Forms of the moduli, digits of the weights and of M, factors of the quotient."""

    forms: Array
    weights: Array
    modulus: Array
    quotient: Array
    digit_bits: int


@cache
def decode_tables(system: ResidueSystem) -> DecodeTables:
    """Tabulate weights[part, digit, modulus], padded with zeros to whole groups."""
    b, count = system.digit_bits, system.num_digits
    padded = -(-system.num_moduli // GROUP) * GROUP
    weights = np.zeros((system.parts, count, padded))
    for modulus, row in enumerate(combined_weights(system)):
        weights[:, :, modulus] = [system.digits(weight) for weight in row]
    m = system.modulus_product
    quotient = [(1 << (t * b)) / m if t >= 0 else 0.0 for t in (count - 1, count - 2)]
    return DecodeTables(
        np.array([FORMS.index(form_of(kind)) for kind in system.kinds]),
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


@njit(nogil=True, cache=True, _nrt=False)
def _reconstruct(d, digits, modulus, quotient, unit, hexagonal, count, lines, v, words):  # type: ignore[no-untyped-def]
    """Make v[word, part, piece] of the sums d[digit, part, piece]: steps 1 to 3.

    digits and words: d and v with both parts as one line.
    """
    halves = reduce_digits(digits, modulus, quotient, unit, lines[0], lines[1])
    if hexagonal and count_off_lattice(d, count) > 0:
        halves += lift_to_cell(d, modulus, quotient, unit, count)
    add_digits(digits, unit, words)
    if halves > 0:
        mirror_digits(digits, unit, words)
        add_digits(digits, unit, words)
    if hexagonal:
        for word in range(len(v)):
            for c in range(count):
                v[word, 0, c] *= 0.5
        times_half_root(v, count)


@njit(nogil=True, cache=True, _nrt=False)
def _scale_down(v, words, row, columns, count, one):  # type: ignore[no-untyped-def]
    """Multiply v[word, part, piece] by 2^e1, and 2^min(e2, 0): step 4.

    `one`: scratch. Returns the largest e.
    """
    bits = one.view(np.int64)
    largest, smallest = np.int64(0), np.int64(0)
    for c in range(count):
        e = -(row + columns[c])
        bits[c] = (min(max(e, _FIRST_LOW), _FIRST_HIGH) + 1023) << 52
        largest, smallest = max(largest, e), min(smallest, e)
    for part in range(v.shape[1]):
        for word in range(words):
            for c in range(count):
                v[word, part, c] *= one[c]
    if smallest < _FIRST_LOW:
        for c in range(count):
            e2 = -(row + columns[c]) - _FIRST_LOW
            bits[c] = (min(max(e2, _SECOND_LOW), 0) + 1023) << 52
        for part in range(v.shape[1]):
            for word in range(words):
                for c in range(count):
                    v[word, part, c] *= one[c]
    return largest


@njit(nogil=True, cache=True, _nrt=False)
def _scale_up(v, words, row, columns, count):  # type: ignore[no-untyped-def]
    """Multiply v[word, part, piece] by 2^max(e2, 0) of step 4; rare."""
    for c in range(count):
        e2 = -(row + columns[c]) - _FIRST_HIGH
        if e2 > 0:
            for part in range(v.shape[1]):
                for word in range(words):
                    v[word, part, c] = ldexp(v[word, part, c], e2)


@njit(nogil=True, cache=True, _nrt=False)
def _normalise(v, count):  # type: ignore[no-untyped-def]
    """Round the sum of both words to the first: the end of step 4."""
    for part in range(v.shape[1]):
        for c in range(count):
            high, low = v[0, part, c], v[1, part, c]
            total = high + low
            v[0, part, c] = total
            v[1, part, c] = low - (total - high) if np.isfinite(total) else 0.0


@njit(nogil=True, cache=True, _nrt=False)
def _scale(v, mode, re, im, count):  # type: ignore[no-untyped-def]
    """v *= alpha; nothing for 1."""
    if mode in (REAL, NONE):
        for part in range(v.shape[1]):
            for c in range(count):
                v[0, part, c] *= re
    elif mode == COMPLEX:
        for c in range(count):
            x, y = v[0, 0, c], v[0, 1, c]
            v[0, 0, c] = re * x - im * y
            v[0, 1, c] = re * y + im * x


@njit(nogil=True, cache=True, _nrt=False)
def _add_scaled(v, own, mode, re, im, count):  # type: ignore[no-untyped-def]
    """v += beta c, of which own[piece * parts]."""
    parts = v.shape[1]
    if mode == COMPLEX:
        for c in range(count):
            x, y = np.float64(own[2 * c]), np.float64(own[2 * c + 1])
            v[0, 0, c] += re * x - im * y
            v[0, 1, c] += re * y + im * x
    else:
        factor = 1.0 if mode == ONE else re
        for part in range(parts):
            for c in range(count):
                v[0, part, c] += factor * np.float64(own[parts * c + part])


@njit(nogil=True, cache=True, _nrt=False)
def _finish(x, real):  # type: ignore[no-untyped-def]
    """Round, make zeros positive and every NaN the same: step 6."""
    rounded = real(x) + real(0)
    return rounded if rounded == rounded else real(np.nan)


@njit(nogil=True, cache=True, _nrt=False)
def _write(v, word, count, out):  # type: ignore[no-untyped-def]
    """Write out[piece * parts]."""
    real = out.dtype.type
    if v.shape[1] == 1:
        for c in range(count):
            out[c] = _finish(v[word, 0, c], real)
    else:
        for c in range(count):
            out[2 * c] = _finish(v[word, 0, c], real)
            out[2 * c + 1] = _finish(v[word, 1, c], real)


@njit(nogil=True, cache=True, _nrt=False)
def decode_rows(  # type: ignore[no-untyped-def]
    residues,
    rows,
    columns,
    forms,
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
    side,
    lo,
    hi,
    out,
    small,
    d,
    digits,
    v,
    both_parts,
    lines,
):
    """Write rows lo..hi of out[word, matrices * m, n * parts], up to the diagonal.

    Or beyond: `side`: below 0 from the first column to the diagonal, above 0 from there
    on. columns[matrices, n].
    """
    words, (matrices, n) = out.shape[0], columns.shape
    m = len(rows) // matrices
    parts, width = d.shape[1:]
    unit = 2.0**digit_bits
    for i in range(lo, hi):
        matrix, row = divmod(i, m)
        left, right = row // 8 * 8 if side > 0 else 0, row + 1 if side < 0 else n
        for start in range(left, right, width):
            count = min(width, right - start)
            sum_residues(residues, i, start, count, forms, weights, small, d)
            _reconstruct(
                d,
                digits,
                modulus,
                quotient,
                unit,
                hexagonal,
                count,
                lines,
                v,
                both_parts,
            )
            own = rows[i], columns[matrix, start : start + count], count
            largest = _scale_down(v, words, *own, lines[0])
            _scale(v, alpha_mode, alpha.real, alpha.imag, count)
            if largest > _FIRST_HIGH:
                _scale_up(v, words, *own)
            first, end = start * parts, (start + count) * parts
            if beta_mode != NONE:
                scalar = beta_mode, beta.real, beta.imag
                _add_scaled(v, c_in[i, first:end], *scalar, count)
            if words == 2:
                _normalise(v, count)
            for word in range(words):
                _write(v, word, count, out[word, i, first:end])


def piece_width(n: int) -> int:
    """Cut n into equal pieces of up to `PIECE`, whole lines of the cache."""
    pieces = max(1, -(-n // PIECE))
    return -(-n // (8 * pieces)) * 8


_local = threading.local()


def _scratch(lengths: tuple[int, ...], shape: tuple[int, int]) -> list[Array]:
    """Return this thread's arrays (length, *shape), of numbers, aligned to cache lines.

    What the last call has left is multiplied by zeros: it must not be a NaN.
    """
    key = lengths, shape
    if getattr(_local, "key", None) != key:
        _local.key, _local.arrays = key, [_aligned_zeros(x, shape) for x in lengths]
    arrays: list[Array] = _local.arrays
    return arrays


def _aligned_zeros(length: int, shape: tuple[int, int]) -> Array:
    size = length * prod(shape)
    buffer = np.zeros(size + 7)
    start = -(buffer.__array_interface__["data"][0] // 8) % 8
    return buffer[start : start + size].reshape(length, *shape)


def decode_tile(
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array,
    side: int,
    lo: int,
    hi: int,
) -> None:
    """Decode rows lo..hi of all matrices into out (words, matrices * m, n * parts).

    `columns`: (matrices, n); `side`: -1 for the lower triangle alone, 1 for the upper
    one, 0 for all.
    """
    tables = decode_tables(system)
    held = 2 if system.hexagonal else len(out)
    lengths = GROUP, system.num_digits, held, 2
    width = piece_width(columns.shape[1])
    small, d, v, lines = _scratch(lengths, (system.parts, width))
    decode_rows(
        residues,
        rows,
        columns,
        tables.forms,
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
        side,
        lo,
        hi,
        out,
        small,
        d,
        d.reshape(len(d), -1),
        v,
        v.reshape(len(v), -1),
        lines.reshape(2, -1),
    )


def as_parts(x: Array) -> Array:
    """View a C-contiguous array as (..., parts) of its real type."""
    parts = 2 if np.iscomplexobj(x) else 1
    return x.view(x.real.dtype).reshape(*x.shape, parts)
