"""Bounds of rho for all pairs of rows and columns, from octaves of their entries.

The error of a product is relative to ``||a_i|| ||b_j||``. The error of the native
product is relative to ``(|A| |B|)_ij``, which may be much smaller: by a factor of

    rho = max_ij ||a_i|| ||b_j|| / (|A| |B|)_ij

so that ``|dC_ij| <= sqrt(k) u (|A| |B|)_ij`` takes ``2 log2 rho`` bits of M more than
relative to the norms. Entries without common nonzeros have no error, and do not count.

*By histograms.* For x, y >= 0 of length k the rearrangement inequality gives ``<x, y>
>= sum_r x_(r) y_(k+1-r)``, x_(r) being the r-th smallest. Let q(r) be the least of
``|a_i|_(r) / ||a_i||`` over all rows; then

    rho <= 1 / sum_r q_A(r) q_B(k+1-r)

for all pairs at once, whatever the order along k. Entries are counted by octaves below
the largest of their rows, and each is taken for the smallest number of its octave.

*By pairs.* ``(|A| |B|)_ij`` is at least its largest term: the least sum of octaves, the
(min, +) product of both matrices, says how large that is.

All is counts, minima and integers, so that each tiling and engine finds the same. The
norm of a row is rounded up to an eighth of an octave, and levels are counted in these:
an entry in octave o of a row whose norm is at most ``2^(e + s/8)`` is at level ``8 (1 +
o) + s``, and above ``2^(-level/8)`` of the norm.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from math import inf, isqrt, ldexp, prod, sqrt
from typing import Any

import numpy as np

from ...kernels.family import convert
from ...kernels.statistics import COUNTED, FAR, RowStatistics
from ...moduli import norm_bits
from ...typing import Array

_STEPS = 8  # levels of an octave
_LEAST = -_STEPS  # steps of a norm that is half of the largest part, the smallest
_LEVELS = _STEPS * 64 + 160  # beyond the last octave of a row of 2^36 entries
# Levels of a pair without a term, and of one with a term that is only known to exist.
_NOWHERE, _BEYOND = -(1 << 12), 1 << 12
# 2^(-1/8) to the power of 0 ... 7, by roots that are rounded alike everywhere.
_POWERS = sqrt(sqrt(sqrt(0.5))), sqrt(sqrt(0.5)), sqrt(0.5)
_ROOTS = [
    prod(x for bit, x in enumerate(_POWERS) if step >> bit & 1)
    for step in range(_STEPS)
]
# Weights of sums of two levels; nothing where one is unknown.
_WEIGHTS = np.array(
    [ldexp(_ROOTS[x % _STEPS], -(x // _STEPS)) for x in range(2 * _LEVELS)] + [0.0]
)
_MARGIN = 1 + 2.0**-40  # above the errors of these, and of their sums
_RANKS, _ROWS = 1 << 20, 64  # of all matrices, and of pairs, that are compared together


def norm_steps(squares: Array, k: int) -> Array:
    """Return the least s with ``||a_i|| <= 2^(e + s/8)`` of each row; int64."""
    found: Array = np.searchsorted(_squares_of_steps(norm_bits(k)), squares)
    return found + _LEAST


@lru_cache(maxsize=32)
def _squares_of_steps(bits: int) -> Array:
    """List floor(2^(2 bits + s/4)), in integers alone, of all s."""
    some = range(_LEAST, 4 * (62 - 2 * bits))
    return np.array([isqrt(isqrt(1 << (8 * bits + s))) for s in some], np.int64)


def find_envelopes(measured: RowStatistics, k: int) -> Array:
    """Count, for each level, the entries down to it that every row of a matrix has.

    Of (rows,) of a matrix, or (count, rows) of those of a stack. Returns (count,
    levels) int64, k everywhere without a finite nonzero row. Parts combine by minimum.
    """
    _, squares, _, _, counts = measured.on_host()
    count = 1 if squares.ndim == 1 else len(squares)
    found = np.full((count, _LEVELS), k, np.int64)
    some = np.flatnonzero(squares)
    if len(some) == 0:
        return found
    # Rows of like norms are taken together, matrix by matrix.
    steps = norm_steps(squares.ravel()[some], k)
    groups = some // squares.shape[-1] * _LEVELS + steps - _LEAST
    order = np.argsort(groups, kind="stable")
    which, first = np.unique(groups[order], return_index=True)
    rows = counts.reshape(-1, len(COUNTED))[some[order]]
    least = np.minimum.reduceat(rows, first, axis=0)
    # Nothing is known of levels before the first that is counted.
    least[:, -1] = 0
    places, steps = np.divmod(which, _LEVELS)
    # Where they stand in a line, in a third of the time of `take_along_axis`.
    ends = _list_ends()[steps] + np.arange(least.size, step=len(COUNTED))[:, np.newaxis]
    each = least.ravel().take(ends)
    which, first = np.unique(places, return_index=True)
    found[which] = np.minimum.reduceat(each, first, axis=0)
    return found


@cache
def _list_ends() -> Array:
    """List, for each step of norms and each level, what is counted down to it."""
    ends, levels = _STEPS * (1 + np.array(COUNTED[:-1])), np.arange(_LEVELS)
    steps = range(_LEAST, _LEVELS - _STEPS * 64)
    found = [np.searchsorted(ends + s, levels, side="right") - 1 for s in steps]
    return np.array(found) % len(COUNTED)


def bound_by_envelopes(left: Array, right: Array, k: int) -> Array:
    """Bound rho^2 of all pairs of each matrix from above, by the envelopes of sides."""
    count = len(left)
    sums = np.zeros((count, len(_WEIGHTS)), np.int64)
    places = np.arange(count)[:, np.newaxis] * len(_WEIGHTS)
    for lo, hi in pairwise([*range(0, k, max(1, _RANKS // count)), k]):
        # Ranks of the left side, the largest first, meet those of the right, reversed.
        levels = _list_levels(left, lo, hi)
        levels += _list_levels(right, k - hi, k - lo)[:, ::-1]
        levels = np.minimum(levels, 2 * _LEVELS) + places
        sums += np.bincount(levels.ravel(), minlength=sums.size).reshape(sums.shape)
    total = (sums * _WEIGHTS).sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(_MARGIN / total**2)


def _list_levels(envelopes: Array, lo: int, hi: int) -> Array:
    """List the levels of the entries of ranks lo..hi; 2 `_LEVELS` where unknown."""
    runs = np.diff(np.clip(envelopes, lo, hi), axis=1, prepend=lo, append=hi)
    levels = np.tile(np.append(np.arange(_LEVELS), 2 * _LEVELS), len(envelopes))
    return np.repeat(levels, runs.ravel()).reshape(len(envelopes), hi - lo)


def bound_by_octaves(
    left: Sequence[RowStatistics], right: Sequence[RowStatistics], k: int
) -> Array:
    """Bound rho^2 of all pairs from above, by the octaves of parts of the rows.

    Of one matrix a side, or of those of a stack: (count,) float64.
    """
    envelopes = [
        np.minimum.reduce([find_envelopes(x, k) for x in side])
        for side in ((left,) if left is right else (left, right))
    ]
    return bound_by_envelopes(envelopes[0], envelopes[-1], k)


def bound_by_terms(
    least: Any, left: RowStatistics, right: RowStatistics, k: int, found: float = 0.0
) -> float:
    """Bound rho^2 of pairs from above, by their largest terms; 0 without any.

    `least`: their `Engine.multiply_octaves`. `found`: the largest of other pairs.
    """
    least, level = convert(least, "numpy"), _NOWHERE
    (rows, far), (columns, too) = (_weigh_rows(x, k) for x in (left, right))
    for lo in range(0, len(rows), _ROWS):
        own = least[lo : lo + _ROWS]
        levels = own * np.int16(_STEPS) + columns
        # Pairs without a known term have one that is far, or none at all.
        there = far[lo : lo + _ROWS, np.newaxis] | too
        levels[own >= FAR] = _NOWHERE
        levels[(own >= FAR) & there] = _BEYOND
        most = levels.max(axis=1, initial=_NOWHERE) + rows[lo : lo + _ROWS]
        level = max(level, int(most.max(initial=_NOWHERE)) + 2 * _STEPS)
    if level > _LEVELS:
        return inf
    if level < 0:
        return found
    whole, rest = divmod(-2 * level, _STEPS)
    return max(found, _MARGIN * ldexp(_ROOTS[rest], -whole))


def _weigh_rows(measured: RowStatistics, k: int) -> tuple[Array, Array]:
    """Return the steps of the norms of rows, and which have entries that are far."""
    _, squares, _, _, counts = measured.on_host()
    return norm_steps(squares, k).astype(np.int16), counts[:, -1] > counts[:, -2]
