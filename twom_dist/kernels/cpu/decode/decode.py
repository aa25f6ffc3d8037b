"""Decode: int8 residues -> floating-point tile, by the contract's written order."""

from dataclasses import dataclass
from functools import cache, lru_cache
from math import ldexp
from typing import Any

import numpy as np

from ....moduli import ResidueSystem, combined_weights, form_of
from ....typing import Array
from ..compiled import inner, kernel
from ..hexagonal import count_off_lattice, lift_to_cell, times_half_root
from ..layout import flat_parts, flat_rows, read_only, real_type, tall
from ..threads import num_threads, ranges, run_each
from ..width import take_widest
from .digits import (
    FORMS,
    GROUP,
    add_digits,
    mirror_digits,
    reduce_digits,
    sum_residues,
)
from .pieces import piece_width, scratch_lines

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


@inner(_nrt=False)
def _reconstruct(d, digits, modulus, quotient, unit, hexagonal, count, lines, v, words):  # type: ignore[no-untyped-def]
    """Make v[word, part, piece] of the sums d[digit, part, piece]: steps 1 to 3.

    digits and words: d and v with both parts as one line.
    """
    take_widest()
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


@inner(_nrt=False)
def _scale_down(v, words, at, row, columns, one):  # type: ignore[no-untyped-def]
    """Multiply v[word, part, piece] by 2^e1, and 2^min(e2, 0): step 4, from `at` on.

    `one`: scratch. Returns the largest e.
    """
    take_widest()
    bits, count = one.view(np.int64), len(columns)
    largest, smallest = np.int64(0), np.int64(0)
    for c in range(count):
        e = -(row + columns[c])
        bits[c] = (min(max(e, _FIRST_LOW), _FIRST_HIGH) + 1023) << 52
        largest, smallest = max(largest, e), min(smallest, e)
    for part in range(v.shape[1]):
        for word in range(words):
            own = v[word, part, at : at + count]
            for c in range(count):
                own[c] *= one[c]
    if smallest < _FIRST_LOW:
        for c in range(count):
            e2 = -(row + columns[c]) - _FIRST_LOW
            bits[c] = (min(max(e2, _SECOND_LOW), 0) + 1023) << 52
        for part in range(v.shape[1]):
            for word in range(words):
                own = v[word, part, at : at + count]
                for c in range(count):
                    own[c] *= one[c]
    return largest


@inner(_nrt=False)
def _scale_up(v, words, at, row, columns):  # type: ignore[no-untyped-def]
    """Multiply v[word, part, piece] by 2^max(e2, 0) of step 4, from `at` on; rare."""
    for c in range(len(columns)):
        e2 = -(row + columns[c]) - _FIRST_HIGH
        if e2 > 0:
            for part in range(v.shape[1]):
                for word in range(words):
                    v[word, part, at + c] = ldexp(v[word, part, at + c], e2)


@inner(_nrt=False)
def _normalise(v, count):  # type: ignore[no-untyped-def]
    """Round the sum of both words to the first: the end of step 4."""
    take_widest()
    for part in range(v.shape[1]):
        for c in range(count):
            high, low = v[0, part, c], v[1, part, c]
            total = high + low
            v[0, part, c] = total
            v[1, part, c] = low - (total - high) if np.isfinite(total) else 0.0


@inner(_nrt=False)
def _scale(v, mode, re, im, count):  # type: ignore[no-untyped-def]
    """v *= alpha; nothing for 1."""
    take_widest()
    if mode in (REAL, NONE):
        for part in range(v.shape[1]):
            for c in range(count):
                v[0, part, c] *= re
    elif mode == COMPLEX:
        for c in range(count):
            x, y = v[0, 0, c], v[0, 1, c]
            v[0, 0, c] = re * x - im * y
            v[0, 1, c] = re * y + im * x


@inner(_nrt=False)
def _add_scaled(v, at, count, own, mode, re, im):  # type: ignore[no-untyped-def]
    """v += beta c, of which own[count * parts], from `at` on."""
    take_widest()
    parts = v.shape[1]
    if mode == COMPLEX:
        re_out, im_out = v[0, 0, at : at + count], v[0, 1, at : at + count]
        for c in range(count):
            x, y = np.float64(own[2 * c]), np.float64(own[2 * c + 1])
            re_out[c] += re * x - im * y
            im_out[c] += re * y + im * x
    else:
        factor = 1.0 if mode == ONE else re
        for part in range(parts):
            out = v[0, part, at : at + count]
            for c in range(count):
                out[c] += factor * np.float64(own[parts * c + part])


@inner(_nrt=False)
def _finish(x, real):  # type: ignore[no-untyped-def]
    """Round, make zeros positive and every NaN the same: step 6."""
    rounded = real(x) + real(0)
    return rounded if rounded == rounded else real(np.nan)


@inner(_nrt=False)
def _write(v, word, at, count, out):  # type: ignore[no-untyped-def]
    """Write out[count * parts], from `at` on."""
    take_widest()
    real = out.dtype.type
    re = v[word, 0, at : at + count]
    if v.shape[1] == 1:
        for c in range(count):
            out[c] = _finish(re[c], real)
    else:
        im = v[word, 1, at : at + count]
        for c in range(count):
            out[2 * c] = _finish(re[c], real)
            out[2 * c + 1] = _finish(im[c], real)


@kernel(_nrt=False)
def decode_rows(  # type: ignore[no-untyped-def]
    residues,
    rows,
    columns,
    n,
    width,
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
    on. Short rows are decoded together. residues[product, 0, matrices * m * length];
    columns[matrices * n].
    """
    words, matrices = out.shape[0], columns.size // n
    columns = columns.reshape(matrices, n)
    m, length = len(rows) // matrices, residues.shape[2] // len(rows)
    parts = d.shape[1]
    unit, together = 2.0**digit_bits, max(1, width // length)
    for i in range(lo, hi, together):
        own_rows, (matrix, row) = min(together, hi - i), divmod(i, m)
        # Whole vectors: what lies beyond the diagonal may hold anything.
        left, right = row // 16 * 16 if side > 0 else 0, n
        if side < 0:
            right = min(n, (row // 16 + 1) * 16)
        if together > 1:
            left, right = 0, own_rows * length
        for start in range(left, right, width):
            count = min(width, right - start)
            first = i * length + start
            sum_residues(residues, 0, first, count, forms, weights, small, d)
            sums = d, digits, modulus, quotient, unit, hexagonal, count
            _reconstruct(*sums, lines, v, both_parts)
            end, largest = min(n, start + count), np.int64(0)
            own, at = matrix, row
            for r in range(own_rows):
                given = r * length, rows[i + r], columns[own, start:end], lines[0]
                largest = max(largest, _scale_down(v, words, *given))
                at += 1
                if at == m:
                    own, at = own + 1, 0
            _scale(v, alpha_mode, alpha.real, alpha.imag, count)
            if largest > _FIRST_HIGH:
                for r in range(own_rows):
                    places = rows[i + r], columns[(i + r) // m, start:end]
                    _scale_up(v, words, r * length, *places)
            first, last = start * parts, end * parts
            if beta_mode != NONE:
                scalar = beta_mode, beta.real, beta.imag
                for r in range(own_rows):
                    added = c_in[i + r, first:last]
                    _add_scaled(v, r * length, end - start, added, *scalar)
            if words == 2:
                _normalise(v, count)
            for word in range(words):
                for r in range(own_rows):
                    target = out[word, i + r, first:last]
                    _write(v, word, r * length, end - start, target)


def decode_tile(
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    alpha: complex,
    beta: complex,
    c: Array | None,
    side: int,
    words: int,
    out: Array,
) -> None:
    """Decode a tile, or a stack, rows side by side.

    `rows`, `columns`: finite exponents of all matrices, in a line; `side`: -1 for the
    lower triangle alone, 1 for the upper one, 0 for all.
    """
    n, sizes = out.shape[-1], (len(rows), out.shape[-1], residues.shape[-1], words)
    plan = _plan_tile(*sizes, system, out.dtype, num_threads())
    scratch, tables, own_shape, real, c_parts, pieces = plan
    scaling = scalar_mode(alpha), complex(alpha), scalar_mode(beta), complex(beta)
    flat = flat_rows(out, own_shape, real)
    if beta != 0:
        assert c is not None
        c_parts = flat_parts(tall(np.ascontiguousarray(c)))
    line = residues.reshape(len(residues), 1, -1)

    def decode(piece: tuple[int, int]) -> None:
        given = line, rows, columns, n, *tables, *scaling, c_parts, side, *piece, flat
        decode_rows(*given, *scratch_lines(*scratch))

    run_each(decode, pieces)


@lru_cache(maxsize=1024)
def _plan_tile(
    m: int,
    n: int,
    length: int,
    words: int,
    system: ResidueSystem,
    dtype: np.dtype[Any],
    threads: int,
) -> tuple[Any, ...]:
    """List what tiles of a shape share.

    That is scratch, arguments of the kernel, the shape and the type of its result, what
    it adds where nothing is added, and ranges.
    """
    width, tables = piece_width(n, length), decode_tables(system)
    held, real = 2 if system.hexagonal else words, real_type(dtype)
    own = tables.forms, tables.weights, tables.modulus, tables.quotient
    return (
        ((GROUP, system.num_digits, held, 2), (system.parts, width)),
        (width, *own, tables.digit_bits, system.hexagonal),
        (words, m, n * dtype.itemsize // real.itemsize),
        real,
        read_only(np.empty((0, 0), real)),
        ranges(m, smallest=8, each=n * system.num_products // 4, threads=threads),
    )
