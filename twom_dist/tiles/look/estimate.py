"""Moduli from the data: from the ratio of norms to magnitudes, on a sample.

The error of a product is relative to ``||a_i|| ||b_j||``. That of the native one is
relative to ``(|A| |B|)_ij``, which may be much smaller: by a factor of

    rho = max_ij ||a_i|| ||b_j|| / (|A| |B|)_ij

so that ``|dC_ij| <= sqrt(k) u (|A| |B|)_ij`` takes ``2 log2 rho`` bits of M more than
the same bound relative to the norms. Entries that are 0 for lack of common nonzeros
have no error, and do not count.

For `accuracy="componentwise"` the maximum is taken over all rows and columns, which
takes a real product in double precision. For "native" it is taken over some, all of
them in small matrices: those that a few entries dominate, where rho is large, and short
runs of the others, since near ones meet where a matrix is banded.

All is exact integers, IEEE operations that round each by itself, and maxima: the same
for every tiling, engine and machine.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ...errors import AccuracyError
from ...kernels.family import convert, family_of, namespace
from ...kernels.operands import Sample
from ...moduli import NONFINITE_ROW, ZERO_ROW, norm_bits
from ...moduli.accuracy import componentwise_system
from ...typing import Array
from ..rows import Row
from ..spec import Spec, load_engine

# Rows, and columns, of a sample: half are dominated by a few entries, half in runs.
SAMPLE = 128
_RUN = 8
# Rows and columns whose product is held at once.
_BLOCK = 2048


class Measured(NamedTuple):
    """Rows of op(A), or columns of op(B): largest exponents and sums of squares.

    Attributes
    ----------
    largest : (rows,) int32
    sums : (rows,) int64
    columns : (3, k) int32, optional
        Extreme exponents of each column: see `Engine.column_exponents`.
    """

    largest: Array
    sums: Array
    columns: Array | None = None

    def take(self, which: Any) -> "Measured":
        """Return some rows, or those of some matrices of a stack."""
        return Measured(self.largest[which], self.sums[which])

    def on_host(self) -> "Measured":
        """Return NumPy arrays, without the columns."""
        return Measured(convert(self.largest, "numpy"), convert(self.sums, "numpy"))


class Bounds(NamedTuple):
    """Bounds of ``|A| |B|`` from below, for the rows and columns of a sample.

    Attributes
    ----------
    sums : (r, c) float64 or int64
        Of integers: exact.
    powers : (r, c) int32, or None
        Exponents of the largest terms, where sums are too small to tell.
    """

    sums: Array
    powers: Array | None


def choose_rows(measured: Sequence[Measured], spec: Spec) -> list[Array]:
    """Choose the rows to look at, tile by tile: indices within each."""
    sizes = [len(tile.largest) for tile in measured]
    largest, sums = (
        convert(join(parts), "numpy")
        for parts in zip(*(tile[:2] for tile in measured), strict=True)
    )
    finite = np.flatnonzero((largest != ZERO_ROW) & (largest != NONFINITE_ROW))
    chosen = finite
    if spec.grade == "native" and len(finite) > SAMPLE:
        # The sums are relative to the largest entry.
        looked_at = _mark_smallest(sums[finite], SAMPLE // 2)
        runs = SAMPLE // 2 // _RUN
        starts = np.arange(runs) * (len(finite) - _RUN) // (runs - 1)
        looked_at[starts[:, np.newaxis] + np.arange(_RUN)] = True
        chosen = finite[looked_at]
    if len(sizes) == 1:
        return [chosen]
    ends = np.cumsum(sizes)
    return [
        chosen[(chosen >= end - size) & (chosen < end)] - (end - size)
        for end, size in zip(ends, sizes, strict=True)
    ]


def join(parts: Sequence[Array]) -> Array:
    """Put arrays side by side along their last axis."""
    if len(parts) == 1:
        return parts[0]
    return namespace(parts[0]).concatenate(parts, axis=-1)


def _mark_smallest(x: Array, count: int) -> Array:
    """Mark the smallest numbers, the first of equal ones, as a stable sort would."""
    last = np.partition(x, count - 1)[count - 1]
    found = x < last
    equal = np.flatnonzero(x == last)
    found[equal[: count - np.count_nonzero(found)]] = True
    return found


def sample_rows(row: Row, step: int, largest: Array, rows: Array, spec: Spec) -> Array:
    """Take the magnitudes of some rows of a tile, in units of each row's power of two.

    Their form is that of `Engine.magnitudes`, as samples are sent to where they meet.
    """
    x, shifts = row.shifted(step, spec)
    sample = Sample(x, convert(largest, family_of(x)), rows, shifts)
    (found,) = load_engine(spec).magnitudes([sample])
    return found


def bound_products(left: Array, right: Array, spec: Spec) -> Bounds:
    """Bound ``|A| |B|^T`` from below, for the samples of one tile along k.

    The sums are those of magnitudes rounded down to b bits. Where a sum is below 2^-b,
    terms below 2^-b decide, and the largest term stands for all. Elsewhere the largest
    term does no harm, for it is not above the sum: a term with a factor below 2^-b is
    at most 2^(-b-1), and the power of two of any other is in the sum.
    """
    engine, bits = load_engine(spec), magnitude_bits(spec.k)
    sums = engine.multiply_magnitudes(left, right, bits)
    # One copy takes less than ten operations on a device.
    few = sums.size <= SAMPLE**2
    if few:
        (sums,) = engine.fetch([sums])
    small = sums < 2**bits
    if not small.any():
        return Bounds(sums, None)
    powers = engine.largest_terms(left, right, small)
    if few:
        (powers,) = engine.fetch([powers])
    return Bounds(sums, powers)


def add_bounds(bounds: Iterable[Bounds]) -> Bounds:
    """Combine the bounds of tiles along k."""
    return reduce(_add_two, bounds)


def _add_two(x: Bounds, y: Bounds) -> Bounds:
    both = [powers for powers in (x.powers, y.powers) if powers is not None]
    return Bounds(x.sums + y.sums, reduce(np.maximum, both) if both else None)


def magnitude_bits(k: int) -> int:
    """Bits b of a magnitude so that sums of products below 2^(2b+1) fit 53 bits."""
    return min(20, (52 - k.bit_length()) // 2)


def square_ratio(bounds: Bounds, squares: Sequence[Array], k: int) -> float:
    """Return the largest rho_ij^2, and 0 where nothing meets.

    `squares`: sums of squares of the rows, and of the columns.
    """
    if 0 in bounds.sums.shape:
        return 0.0
    xp = namespace(bounds.sums)
    lower = bounds.sums * 2.0 ** (-2 * magnitude_bits(k))
    if bounds.powers is not None and (bounds.powers != ZERO_ROW).any():
        # 0 where there is no term, by underflow.
        largest = xp.ldexp(xp.ones_like(lower), bounds.powers)
        lower = xp.maximum(lower, largest)
    left, right = (xp.asarray(x).astype(np.float64) for x in squares)
    # A power of two, which rounds nothing wherever it is multiplied.
    left *= 2.0 ** (-4 * norm_bits(k))
    ratios = left[:, np.newaxis] * right
    # Entries without common nonzeros do not count: their ratio becomes 0.
    lower[lower == 0] = np.inf
    ratios /= lower
    ratios /= lower
    return float(ratios.max())


def cell_ratio(
    tiles: Callable[[], Iterable[tuple[Array, Array]]],
    squares: Sequence[Array],
    spec: Spec,
) -> float:
    """Return the largest rho_ij^2 of rows and columns.

    `tiles`: gives the magnitudes of both sides, tile by tile along k.
    """
    found = [0.0]
    for i in range(0, len(squares[0]), _BLOCK):
        for j in range(0, len(squares[1]), _BLOCK):
            rows, columns = slice(i, i + _BLOCK), slice(j, j + _BLOCK)
            bounds = (bound_products(x[rows], y[columns], spec) for x, y in tiles())
            own = squares[0][rows], squares[1][columns]
            found.append(square_ratio(add_bounds(bounds), own, spec.k))
    return max(found)


def bound_tiles(left: Iterable[Array], right: Iterable[Array], spec: Spec) -> Bounds:
    """Bound the products of the samples of all rows of tiles, of the same columns."""
    x, y = ([*samples] for samples in (left, right))
    xp = namespace(x[0])
    return bound_products(xp.concatenate(x), xp.concatenate(y), spec)


def sample_sums(rows: Sequence[Array], measured: Sequence[Measured]) -> Array:
    """Return the sums of squares of chosen rows."""
    sums = convert(join([tile.sums for tile in measured]), "numpy")
    ends = np.cumsum([len(tile.sums) for tile in measured])
    starts = [0, *ends[:-1]]
    which = [start + i for start, i in zip(starts, rows, strict=True)]
    found: Array = sums[np.concatenate(which)]
    return found


def choose_moduli(spec: Spec, square: float) -> Spec:
    """Settle the moduli by rho^2, or the native product beyond all residue systems."""
    system = componentwise_system(spec.method, spec.k, square, spec.unit_roundoff)
    if system is None and spec.words == 2:
        raise AccuracyError(
            "the matrices need more bits than any residue system has",
            "Give num_moduli or accuracy='normwise'",
            "accuracy-out-of-reach",
        )
    return spec.settle(system, sqrt(square))


def settle_in_memory(
    spec: Spec,
    rows: Sequence[Row],
    measured: Sequence[Measured],
    on_host: Sequence[Measured],
) -> Spec:
    """Settle the moduli of whole matrices, whose samples are taken in one launch."""
    chosen = [choose_rows([x], spec)[0] for x in on_host]
    found = load_engine(spec).magnitudes(
        [
            Sample(row.view(0, spec), x.largest, own, row.shifts_of(0, spec))
            for row, x, own in zip(rows, measured, chosen, strict=True)
        ]
    )
    squares = [sample_sums([own], [x]) for own, x in zip(chosen, on_host, strict=True)]
    both = squares[0], squares[-1]
    tiles = [(found[0], found[-1])]
    return choose_moduli(spec, cell_ratio(lambda: tiles, both, spec))
