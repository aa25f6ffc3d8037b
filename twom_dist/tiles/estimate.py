"""How many moduli the data take: from the ratio of norms to magnitudes, on a sample.

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

from collections.abc import Iterable, Sequence
from functools import reduce
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ..accuracy import componentwise_system
from ..errors import AccuracyError
from ..kernels.family import convert, namespace
from ..moduli import NONFINITE_ROW, ZERO_ROW, norm_bits
from ..typing import Array, Side
from .spec import Spec, as_rows, load_engine

# Rows, and columns, of a sample; half of them the dominated ones, half in runs.
SAMPLE = 128
_RUN = 8
# Rows and columns whose product is held at once.
_BLOCK = 2048
# Multiplications of a product that OpenBLAS does in the calling thread.
_ONE_THREAD = 2**18
# Exponent of what is 0, and of sums with it.
_NOTHING = np.int16(-10_000)


class Measured(NamedTuple):
    """Rows of op(A), or columns of op(B): largest exponents and sums of squares."""

    largest: Array
    sums: Array


class Bounds(NamedTuple):
    """Bounds of ``|A| |B|`` from below, for the rows and columns of a sample.

    Attributes
    ----------
    sums : (r, c) float64
        Of integers: exact.
    powers : (r, c) int16
        Exponents of the largest term, where the sums are too small to tell.
    """

    sums: Array
    powers: Array


def choose_rows(measured: Sequence[Measured], spec: Spec) -> list[Array]:
    """Choose the rows to look at, tile by tile: indices within each."""
    sizes = [len(tile.largest) for tile in measured]
    largest, sums = (
        np.concatenate([convert(x, "numpy") for x in tiles])
        for tiles in zip(*measured, strict=True)
    )
    finite = np.flatnonzero((largest != ZERO_ROW) & (largest != NONFINITE_ROW))
    chosen = finite
    if spec.grade == "native" and len(finite) > SAMPLE:
        # The sums are relative to the largest entry.
        dominated = np.argsort(sums[finite], kind="stable")[: SAMPLE // 2]
        runs = SAMPLE // 2 // _RUN
        starts = np.arange(runs) * (len(finite) - _RUN) // (runs - 1)
        inside = (starts[:, np.newaxis] + np.arange(_RUN)).reshape(-1)
        chosen = finite[np.union1d(dominated, inside)]
    ends = np.cumsum(sizes)
    return [
        chosen[(chosen >= end - size) & (chosen < end)] - (end - size)
        for end, size in zip(ends, sizes, strict=True)
    ]


def sample_rows(
    block: Array, largest: Array, rows: Array, side: Side, spec: Spec
) -> Array:
    """Take the magnitudes of some rows, in units of each row's power of two.

    As `Engine.magnitudes` has them: samples are sent to where they meet.
    """
    xp = namespace(block)
    chosen = xp.asarray(rows)
    x = as_rows(block, side, spec.op(side))[chosen]
    return load_engine(spec).magnitudes(x, xp.asarray(largest)[chosen])


def bound_products(left: Array, right: Array, k: int) -> Bounds:
    """Bound ``|A| |B|^T`` from below, for the samples of one tile along k.

    The sums are those of magnitudes rounded down to b bits. Where they are below 2^-b,
    which terms of less than that decide, the largest term stands for all.
    """
    xp, bits = namespace(left), _magnitude_bits(k)
    unit = 2.0**bits
    sides = [(x.astype(np.uint32) << 16).view(np.float32) for x in (left, right)]
    digits = [xp.floor(x.astype(np.float64) * unit) for x in sides]
    product = _multiply if xp is np else _multiply_on_device
    sums = product(*digits)
    powers = xp.full(sums.shape, 2 * _NOTHING, np.int16)
    small = sums < unit
    if small.any():
        # In sparse matrices most entries are sums of nothing.
        small &= product(*((x != 0).astype(np.float64) for x in sides)) > 0
    if small.any():
        exponents = [
            xp.where(x == 0, _NOTHING, xp.frexp(x)[1].astype(np.int16) - 1)
            for x in sides
        ]
        for i in xp.flatnonzero(small.any(axis=1)):
            terms = exponents[0][i] + exponents[1][small[i]]
            powers[i, small[i]] = terms.max(axis=1)
    return Bounds(sums, powers)


def _multiply(x: Array, y: Array) -> Array:
    """Multiply rows of integers, exactly and so in any order.

    Small ones in pieces for which OpenBLAS starts no threads: these spin after their
    work, and gemm at 1024 took 1.4 times as long (AMD EPYC, 2 cores).
    """
    pieces = _ONE_THREAD // max(1, len(x) * len(y))
    if pieces < 4:
        return x @ y.T
    total = np.zeros((len(x), len(y)))
    for lo in range(0, x.shape[1], pieces):
        total += x[:, lo : lo + pieces] @ y[:, lo : lo + pieces].T
    return total


def _multiply_on_device(x: Array, y: Array) -> Array:
    return x @ y.T


def add_bounds(bounds: Iterable[Bounds]) -> Bounds:
    """Combine the bounds of tiles along k."""
    return reduce(
        lambda x, y: Bounds(x.sums + y.sums, np.maximum(x.powers, y.powers)), bounds
    )


def _magnitude_bits(k: int) -> int:
    """Bits b of a magnitude such that sums of products, each below 2^(2b+1), fit 53."""
    return min(20, (52 - k.bit_length()) // 2)


def square_ratio(bounds: Bounds, squares: Sequence[Array], k: int) -> float:
    """Return the largest rho_ij^2, and 0 where nothing meets.

    `squares`: sums of squares of the rows, and of the columns.
    """
    if 0 in bounds.sums.shape:
        return 0.0
    xp = namespace(bounds.sums)
    lower = bounds.sums * 2.0 ** (-2 * _magnitude_bits(k))
    exists = bounds.powers > _NOTHING
    if exists.any():
        powers = xp.where(exists, bounds.powers, 0).astype(np.int32)
        largest = xp.ldexp(xp.ones_like(lower), powers)
        lower = xp.maximum(lower, xp.where(exists, largest, 0))
    left, right = (xp.asarray(x).astype(np.float64) for x in squares)
    ratios = left[:, np.newaxis] * right * 2.0 ** (-4 * norm_bits(k))
    # Where nothing meets, nothing is divided.
    lower[lower == 0] = np.inf
    ratios /= lower
    ratios /= lower
    return float(ratios.max())


def cell_ratio(
    left: Sequence[Array], right: Sequence[Array], squares: Sequence[Array], k: int
) -> float:
    """Return the largest rho_ij^2 of rows and columns, from their tiles along k."""
    found = [0.0]
    for i in range(0, left[0].shape[0], _BLOCK):
        for j in range(0, right[0].shape[0], _BLOCK):
            rows, columns = slice(i, i + _BLOCK), slice(j, j + _BLOCK)
            bounds = (
                bound_products(x[rows], y[columns], k)
                for x, y in zip(left, right, strict=True)
            )
            own = squares[0][rows], squares[1][columns]
            found.append(square_ratio(add_bounds(bounds), own, k))
    return max(found)


def bound_tiles(left: Sequence[Array], right: Sequence[Array], k: int) -> Bounds:
    """Bound the products of the samples of all tiles, of one step along k."""
    xp = namespace(left[0])
    return bound_products(xp.concatenate(left), xp.concatenate(right), k)


def sample_sums(rows: Sequence[Array], measured: Sequence[Any]) -> Array:
    """Square sums of chosen rows."""
    return np.concatenate(
        [convert(sums, "numpy")[i] for i, (_, sums) in zip(rows, measured, strict=True)]
    )


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
    spec: Spec, left: tuple[Array, Measured], right: tuple[Array, Measured]
) -> Spec:
    """Settle the moduli of a product of matrices in memory."""

    def sample(x: Array, measured: Measured, side: Side) -> tuple[Array, Array]:
        (rows,) = choose_rows([measured], spec)
        taken = sample_rows(x, measured.largest, rows, side, spec)
        return taken, sample_sums([rows], [measured])

    x, squares_x = sample(*left, "left")
    y, squares_y = (x, squares_x) if spec.twins else sample(*right, "right")
    return choose_moduli(spec, cell_ratio([x], [y], (squares_x, squares_y), spec.k))


def measure_rows(
    block: Array, side: Side, spec: Spec, largest: Array | None = None
) -> Measured:
    """Measure the rows of a tile that holds the whole of k."""
    engine, rows = load_engine(spec), as_rows(block, side, spec.op(side))
    if largest is None:
        largest = engine.largest_exponents(rows)
    return Measured(largest, engine.square_sums(rows, largest, norm_bits(spec.k)))
