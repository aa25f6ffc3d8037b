"""Decode: int8 residues -> floating-point tile, by the contract's written order."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from ....moduli import ResidueSystem, combined_weights
from ....typing import Array
from ..buffers import empty_lines
from ..jit import inner, kernel
from ..layout import REAL, flat_parts, flat_rows, read_only, tall
from ..threads import num_threads, ranges, run_each
from .digits import add_digits, balance_digits, mirror_digits
from .scaling import (
    FIRST_HIGH,
    NONE,
    add_scaled,
    normalise,
    scalar_mode,
    scale,
    scale_down,
    scale_up,
    write,
)
from .sums import COMBINED, FORMS, combine_residues, sum_residues

# Entries decoded together at most. Zen 2, 16 2M moduli, 1 thread: 12.3 ns an entry;
# with 256, 12.9, since each piece takes a time of its own.
PIECE = 512

# Rows of an update that are derived, decoded and closed one after the other, while they
# are in the caches: a multiple of the sides of the squares that all three take.
BAND = 64

# What is done to rows, from the first to the one after the last.
OfRows = Callable[[int, int], object]


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
    """Tabulate weights[part, modulus, digit], of two digits or more."""
    b, count = system.digit_bits, max(2, system.num_digits)

    def digits(x: int) -> list[int]:
        return [*system.digits(x), 0][:count]

    weights = np.zeros((system.parts, system.num_moduli, count))
    for modulus, row in enumerate(combined_weights(system)):
        weights[:, modulus] = [digits(weight) for weight in row]
    m = system.modulus_product
    return DecodeTables(
        np.array([FORMS.index(kind) for kind in system.kinds]),
        weights,
        np.array(digits(m), dtype=np.float64),
        np.array([(1 << (t * b)) / m for t in (count - 1, count - 2)]),
        b,
    )


@inner(_nrt=False)
def _reconstruct(d, digits, modulus, quotient, unit, count, components):
    """Make components[component, part * piece] of d[digit, part, piece]: steps 1 to 3.

    digits: d with both parts as one line.
    """
    halves = balance_digits(d, modulus, quotient, unit, count)
    add_digits(digits, unit, components)
    if halves > 0:
        mirror_digits(digits, unit, components)
        add_digits(digits, unit, components)


@inner(_nrt=False)
def _range_places(i, hi, m, n, length, together, side):
    """Find the columns of row i that are decoded, or of rows that lie side by side.

    Whole vectors of them: what lies beyond the diagonal may hold anything.
    """
    if together > 1:
        return 0, min(together, hi - i) * length
    first = i % m // COMBINED * COMBINED
    return first if side > 0 else 0, min(n, first + COMBINED) if side < 0 else n


@kernel(_nrt=False)
def decode_rows(
    residues,
    rows,
    columns,
    n,
    width,
    tables,
    alpha,
    beta,
    c_in,
    side,
    lo,
    hi,
    out,
    scratch,
):
    """Write rows lo..hi of out[component, matrices * m, n * parts], up to the diagonal.

    Or beyond: `side`: below 0 from the first column to the diagonal, above 0 from there
    on. Short rows are decoded together. residues[product, matrices * m * length];
    columns[matrices * n].
    """
    forms, weights, modulus, quotient, digit_bits = tables
    small, d, v = scratch
    components, matrices = out.shape[0], columns.size // n
    columns = columns.reshape(matrices, n)
    alpha_mode, beta_mode = scalar_mode(alpha), scalar_mode(beta)
    # Both parts as one line.
    digits, both_parts = d.reshape(len(d), -1), v.reshape(len(v), -1)
    m, length = len(rows) // matrices, residues.shape[1] // len(rows)
    parts, together = d.shape[1], max(1, width // length)
    unit, shape = 2.0**digit_bits, (hi, m, n, length, together, side)
    i, (start, right) = lo, _range_places(lo, *shape)
    while i < hi:
        own_rows, count = min(together, hi - i), min(width, right - start)
        combine_residues(residues, i * length + start, count, forms, small)
        result = out.ctypes.data + i * out.strides[1] + start * parts * out.itemsize
        sum_residues(small, count, weights, d, result, out.itemsize)
        _reconstruct(d, digits, modulus, quotient, unit, count, both_parts)
        end, largest = min(n, start + count), np.int64(0)
        first, last = start * parts, end * parts
        for r in range(own_rows):
            places = rows[i + r], columns[(i + r) // m, start:end]
            largest = max(largest, scale_down(v, components, r * length, *places))
        scale(v, alpha_mode, alpha.real, alpha.imag, count)
        if largest > FIRST_HIGH:
            for r in range(own_rows):
                places = rows[i + r], columns[(i + r) // m, start:end]
                scale_up(v, components, r * length, *places)
        if beta_mode != NONE:
            scalar = beta_mode, beta.real, beta.imag
            for r in range(own_rows):
                added = c_in[i + r, first:last]
                add_scaled(v, r * length, end - start, added, *scalar)
        if components == 2:
            normalise(v, count)
        for component in range(components):
            for r in range(own_rows):
                target = out[component, i + r, first:last]
                write(v[component], r * length, target)
        start += count
        if start >= right:
            i += together
            start, right = _range_places(i, *shape)


def piece_width(n: int, length: int, side: int) -> int:
    """Cut n into equal pieces of up to `PIECE`, whole lines of the cache.

    If several rows, `length` apart, fit into a piece, take as many: all of each, so
    that those of a triangle are to be short.
    """
    if (2 if side == 0 else 4) * length <= PIECE:
        return PIECE // length * length
    pieces = max(1, -(-n // PIECE))
    return -(-n // (8 * pieces)) * 8


_local = threading.local()
_ROOM = 32  # numbers that rows are longer than their pieces, and whole multiples of


def scratch_lines(
    moduli: int, digits: int, components: int, shape: tuple[int, int]
) -> tuple[Array, ...]:
    """Return this thread's arrays as `decode_rows` takes them, aligned to cache lines.

    int32 of the moduli, and numbers of the digits and of the components, of
    shape (count, *shape).

    All lie in one block, and rows are longer than `shape` says: where the rows of 4 KB
    of arrays from anywhere displaced each other, some processes took 33 ns for an entry
    that took others 20 (Zen 2). What the last call has left may be computed with, and
    not used: it must not be a NaN.
    """
    key = moduli, digits, components, shape
    if getattr(_local, "key", None) != key:
        parts, width = shape
        row = parts, (-(-width // _ROOM) + 1) * _ROOM
        halves = -(-moduli // 2)
        size = halves + digits + components, *row
        block = empty_lines(8 * prod(size)).view(np.float64).reshape(size)
        block.fill(0)
        small, d, v = np.split(block, np.cumsum((halves, digits)))
        small = small.view(np.int32).reshape(2 * halves, *row)
        _local.key, _local.arrays = key, (small, d, v)
    arrays: tuple[Array, ...] = _local.arrays
    return arrays


def decode_tile(
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    alpha: complex,
    beta: complex,
    c: Array | None,
    side: int,
    components: int,
    out: Array,
    before: OfRows | None = None,
    after: OfRows | None = None,
) -> None:
    """Decode a tile, or a stack, rows side by side.

    `rows`, `columns`: finite exponents of all matrices, int64, in a line; `side`: -1
    for the lower triangle alone, 1 for the upper one, 0 for all; `before` and `after`:
    what is done to rows lo..hi, from a multiple of `BAND` on, beside other threads.
    """
    n, sizes = out.shape[-1], (len(rows), out.shape[-1], residues.shape[-1], components)
    band = BAND if before or after else 1
    plan = _plan_tile(*sizes, side, band, system, out.dtype, num_threads())
    scratch, width, tables, own_shape, real, c_parts, pieces = plan
    flat = flat_rows(out, own_shape, real)
    if beta != 0:
        assert c is not None
        c_parts = flat_parts(tall(np.ascontiguousarray(c)))
    line = residues.reshape(len(residues), -1)

    def decode(piece: tuple[int, int]) -> None:
        if before:
            before(*piece)
        given = line, rows, columns, n, width, tables, complex(alpha), complex(beta)
        decode_rows(*given, c_parts, side, *piece, flat, scratch_lines(*scratch))
        if after:
            after(*piece)

    run_each(decode, pieces)


@lru_cache(maxsize=1024)
def _plan_tile(
    m: int,
    n: int,
    length: int,
    components: int,
    side: int,
    band: int,
    system: ResidueSystem,
    dtype: np.dtype[Any],
    threads: int,
) -> tuple[Any, ...]:
    """List what tiles of a shape share.

    That is scratch, arguments of the kernel, the shape and the type of its result, what
    it adds where nothing is added, and ranges.
    """
    width, tables = piece_width(n, length, side), decode_tables(system)
    real = REAL[dtype.char]
    own = tables.forms, tables.weights, tables.modulus, tables.quotient
    each, least = band * n * system.num_products // 4, -(-8 // band)
    bands = ranges(-(-m // band), smallest=least, each=each, threads=threads)
    pieces = [(lo * band, min(m, hi * band)) for lo, hi in bands]
    # Short rows are decoded with what lies beyond the diagonal, where others mirror.
    assert band == 1 or len(pieces) == 1 or width < 2 * length
    # The longest rows of a triangle first: no thread waits for the last of them.
    order = -1 if side < 0 else 1
    return (
        (system.num_moduli, tables.modulus.size, components, (system.parts, width)),
        width,
        (*own, tables.digit_bits),
        (components, m, n * dtype.itemsize // real.itemsize),
        real,
        read_only(np.empty((0, 0), real)),
        pieces[::order],
    )
