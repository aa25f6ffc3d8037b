"""Magnitudes of entries: their sums, their leading digits, and products of these."""

from functools import partial
from math import prod

import numpy as np

from ....moduli import NONFINITE_ROW, ZERO_ROW
from ....typing import Array
from ..compiled import inner, kernel
from ..layout import flat_parts, list_entries, listed, read_only, straighten, tall
from ..products.int8_gemm import get_gemm, multiply_small
from ..threads import ranges, run_each
from ..tuning import LARGEST_K
from . import entries, norms


def row_sums(
    x: Array, largest: Array, norm_bits: int, shifts: Array | None = None
) -> tuple[Array, Array]:
    """Sum squares and magnitudes of each row, in one pass."""
    sentinel = norms.is_sentinel(largest)
    one, two = norms.power_factors(
        np.where(sentinel, NONFINITE_ROW, norm_bits - largest)
    )
    source, across = straighten(x)
    flat, columns = flat_parts(source), norms.column_factors(shifts)
    rows, parts = x.shape[:-1], 1 + np.iscomplexobj(x)
    squares, totals = np.zeros((2, prod(rows)), np.int64)
    factors = one.reshape(-1), two.reshape(-1), columns, parts
    if across:
        given, each = (entries.row_sums_outer, listed(flat)), x.shape[-1]
    else:
        given, each = (entries.row_sums_inner, tall(flat)), x.shape[-1]
    run = partial(given[0], given[1], *factors)
    run_each(
        lambda r: run(*r, squares, totals),
        ranges(len(squares), smallest=128 if across else 16, each=each),
    )
    for out in (squares, totals):
        out[sentinel.reshape(-1)] = 0
    return squares.reshape(rows), totals.reshape(rows)


def sum_squares(
    x: Array, factors: tuple[Array, Array], shifts: Array | None, unit: float = 0.0
) -> Array:
    """Sum squares of magnitudes times factors of their rows, or of errors if `unit`."""
    source, across = straighten(x)
    flat, rows = flat_parts(source), x.shape[:-1]
    parts, length = 1 + np.iscomplexobj(x), flat.shape[-1]
    if not across:
        out = np.zeros(rows, np.int64)
        one, two = (t.reshape(-1) for t in factors)
        given = tall(flat), one, two, norms.column_factors(shifts, parts), unit
        run_each(
            lambda r: norms.square_sums_inner(*given, *r, out.reshape(-1)),
            ranges(out.size, smallest=16, each=length // 3),
        )
        return out
    one, two = (np.repeat(t, parts) for t in factors)
    given = listed(flat), one, two, norms.column_factors(shifts), unit
    lanes = np.zeros(prod(rows) * parts, np.int64)
    run_each(
        lambda r: norms.square_sums_outer(*given, *r, lanes),
        ranges(len(lanes), smallest=256, each=flat.shape[-2] // 3),
    )
    found: Array = lanes.reshape(*rows, parts).sum(axis=-1)
    return found


def error_sums(
    x: Array, exponents: Array, bits: int, shifts: Array | None = None
) -> Array:
    """Sum the squares of rounding errors of each row."""
    out = sum_squares(x, norms.power_factors(exponents), shifts, 2.0**bits)
    out[norms.is_sentinel(exponents)] = 0
    return out


def magnitudes(x: Array, largest: Array, shifts: Array | None = None) -> Array:
    """Round the magnitudes of entries, relative to their rows, to 8 bits."""
    own, across = list_entries(x)
    out = np.empty(x.shape, np.uint16)
    # A copy: what other workers computed arrives read-only, a type of its own.
    e, columns = largest.astype(np.int32), norms.column_factors(shifts)
    given = own[0], across, columns, e
    run_each(
        lambda r: entries.relative_magnitudes(*given, *r, out),
        ranges(len(out), smallest=64 if across else 16, each=4 * out.shape[1]),
    )
    return out


def multiply_digits(x: Array, y: Array, digits: int) -> Array:
    """Multiply digits by the int8 GEMM of a library, rows side by side."""
    (m, k), n = x.shape, len(y)
    wide = digits == 2 or k > LARGEST_K
    total = np.zeros((m, n), np.int64 if wide else np.int32)
    for lo in range(0, k if total.size else 0, LARGEST_K):
        own = slice(lo, lo + LARGEST_K)
        left, right = (
            _take_digits(t[:, own], digits, across)
            for t, across in ((x, False), (y, True))
        )
        products = _multiply(left[0], right[0])
        if not wide:
            return products
        total += products if digits < 2 else 128 * products.astype(np.int64)
        if digits == 2:
            total += _multiply(left[0], right[1])
            total += _multiply(left[1], right[0])
    return total


def _multiply(a: Array, b: Array) -> Array:
    sums = np.empty((len(a), b.shape[1]), np.int32)
    # Each call packs all of b: 64, 128 and 256 rows of 2048 at a time took 1.27, 1.09
    # and 1.00 of the time of 512 (AMD EPYC of family 26, by ONNX Runtime).
    pieces = ranges(len(a), smallest=256, each=b.size // 100)
    with get_gemm().own_threads():
        run_each(lambda r: multiply_small(a[slice(*r)], b, sums[slice(*r)]), pieces)
    return sums


def _take_digits(x: Array, digits: int, across: bool) -> list[Array]:
    """Cut magnitudes to digits, each a matrix of bytes, or the transpose of it."""
    out = np.empty((max(1, digits), *x.shape), np.uint8)
    given, pieces = read_only(np.ascontiguousarray(x)), _pieces(x)
    run_each(lambda r: _cut_to_digits(given, digits, *r, out), pieces)
    if not across:
        return list(out)
    return [*map(_turn, out)]


def _pieces(x: Array) -> list[tuple[int, int]]:
    return ranges(len(x), smallest=64, each=x.shape[1] // 2)


def _turn(x: Array) -> Array:
    """Copy the transpose."""
    out = np.empty(x.shape[::-1], x.dtype)
    run_each(lambda r: _turn_rows(x, *r, out), _pieces(x))
    return out


@kernel
def _cut_to_digits(x, digits, lo, hi, out):  # type: ignore[no-untyped-def]
    """out[digit, i] = digits of row i of x."""
    for i in range(lo, hi):
        row, high = x[i], out[0, i]
        if digits == 0:
            for t in range(row.size):
                high[t] = np.uint8(row[t] != 0)
        elif digits == 1:
            for t in range(row.size):
                high[t] = scale(np.uint32(row[t]), np.uint32(6))
        else:
            low = out[1, i]
            for t in range(row.size):
                whole = scale(np.uint32(row[t]), np.uint32(13))
                high[t], low[t] = whole >> np.uint32(7), whole & np.uint32(127)


@kernel
def _turn_rows(x, lo, hi, out):  # type: ignore[no-untyped-def]
    """out[t, i] = x[i, t], by squares: either reads or writes go from row to row."""
    for start in range(lo, hi, 64):
        stop = min(start + 64, hi)
        for first in range(0, x.shape[1], 64):
            for t in range(first, min(first + 64, x.shape[1])):
                to = out[t]
                for i in range(start, stop):
                    to[i] = x[i, t]


@inner
def scale(x, bits):  # type: ignore[no-untyped-def]
    """floor(x 2^bits) of a magnitude, (128 + its low 7 bits) 2^(field - 134).

    A zero has the field 0: nothing is left of it.
    """
    significand = (x & np.uint32(127)) | np.uint32(128)
    right = min(np.uint32(134) - (x >> np.uint32(7)), np.uint32(31))
    return (significand << bits) >> right


def find_open(
    products: Array, left: Array, right: Array, factor: float, most: int
) -> tuple[Array, Array, Array] | None:
    """Count the pairs of each row, then list them."""
    counts = np.zeros(len(products), np.int64)
    given = read_only(products), read_only(left), read_only(right), factor
    pieces = ranges(len(products), smallest=16, each=products.shape[1])
    run_each(lambda r: _count_open(*given, *r, counts), pieces)
    total = int(counts.sum())
    if total > most:
        return None
    rows, columns, own = np.empty((3, total), np.int64)
    if total:
        ends = np.cumsum(counts)
        run_each(lambda r: _list_open(*given, ends, *r, rows, columns, own), pieces)
    return rows, columns, own


@kernel
def _count_open(products, left, right, factor, lo, hi, counts):  # type: ignore[no-untyped-def]
    """Count the pairs with products^2 factor < left right."""
    for i in range(lo, hi):
        row, x, count = products[i], left[i], 0
        for j in range(row.size):
            y = np.float64(row[j])
            count += (y * y) * factor < x * right[j]
        counts[i] = count


@kernel
def _list_open(products, left, right, factor, ends, lo, hi, rows, columns, own):  # type: ignore[no-untyped-def]
    """List the same pairs; those of row i end at ends[i]."""
    for i in range(lo, hi):
        row, x = products[i], left[i]
        place = ends[i - 1] if i > 0 else 0
        for j in range(row.size if ends[i] > place else 0):
            y = np.float64(row[j])
            if (y * y) * factor < x * right[j]:
                rows[place], columns[place], own[place] = i, j, row[j]
                place += 1


# Share of all pairs from which the BLAS takes less time for all of them: 0.05 ns a term
# beside 0.35 (AMD EPYC of family 23, 2 cores).
_DENSE = 8


def bound_pairs(
    x: Array, y: Array, rows: Array, columns: Array, bits: int
) -> tuple[Array, Array]:
    """Sum products, and find the largest term, of each pair."""
    sums = np.zeros(len(rows), np.int64)
    terms = np.full(len(rows), ZERO_ROW, np.int32)
    x, y = (read_only(np.ascontiguousarray(t)) for t in (x, y))
    few, given = np.arange(len(rows)), (np.asarray(rows), np.asarray(columns))
    exact = x.shape[1] * 2.0 ** (2 * bits + 1) <= 2.0**53
    if exact and len(rows) * _DENSE > len(x) * len(y):
        whole = [_scale_all(t, bits) for t in (x, y)]
        sums[:] = (whole[0] @ whole[1].T)[given]
        # Terms decide only where sums are too small to tell.
        few = np.flatnonzero(sums < 2**bits)
    run_each(
        lambda r: _bound_pairs(x, y, *given, few, bits, *r, sums, terms),
        ranges(len(few), smallest=16, each=x.shape[1] // 2),
    )
    return sums, terms


def _scale_all(x: Array, bits: int) -> Array:
    """Cut magnitudes to integers in float64."""
    out = np.empty(x.shape)
    run_each(lambda r: _scale_rows(x, bits, *r, out), _pieces(x))
    return out


@kernel
def _scale_rows(x, bits, lo, hi, out):  # type: ignore[no-untyped-def]
    """out[i] = floor(x[i] 2^bits)."""
    for i in range(lo, hi):
        row, to = x[i], out[i]
        for t in range(row.size):
            to[t] = np.float64(np.int32(scale(np.uint32(row[t]), np.uint32(bits))))


@kernel
def _bound_pairs(x, y, rows, columns, few, bits, lo, hi, sums, terms):  # type: ignore[no-untyped-def]
    """Sum floor(x 2^bits) floor(y 2^bits), and find the largest sum of exponents.

    Of the pairs few[lo:hi].
    """
    up = np.uint32(bits)
    for p in few[lo:hi]:
        a, b = x[rows[p]], y[columns[p]]
        total, largest = np.uint64(0), np.int32(-(1 << 20))
        for t in range(a.size):
            i, j = np.uint32(a[t]), np.uint32(b[t])
            total += np.uint64(scale(i, up)) * np.uint64(scale(j, up))
            term = np.int32((i >> np.uint32(7)) + (j >> np.uint32(7))) - np.int32(254)
            meet = i != 0 and j != 0
            largest = max(largest, term if meet else np.int32(-(1 << 20)))
        sums[p] = np.int64(total)
        if largest > -(1 << 20):
            terms[p] = largest
