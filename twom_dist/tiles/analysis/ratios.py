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

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache, reduce
from itertools import pairwise
from math import inf, isqrt, ldexp, prod, sqrt
from typing import Any

import numpy as np

from ...kernels.family import convert, family_of, join, namespace
from ...kernels.statistics import COUNTED, FAR, NONE, RowStatistics
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
# Columns beyond which some rows are finished before all others, which end early then;
# and how many: those of a block of `octaves.cu`.
_LONG, _FIRST = 4096, 64


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
        reduce(np.minimum, (find_envelopes(x, k) for x in side))
        for side in ((left,) if left is right else (left, right))
    ]
    return bound_by_envelopes(envelopes[0], envelopes[-1], k)


class LargestTerms:
    """The largest terms of pairs of rows of tiles, as levels of the norms of both.

    `level`: the largest of all pairs so far. Pairs that cannot be above it are not
    finished, so that it is the same in whatever order they come.
    """

    def __init__(self, k: int) -> None:
        self._k, self.level = k, _NOWHERE

    @property
    def ratio(self) -> float:
        """The bound of rho^2 of these pairs from above; 0 without any."""
        if self.level > _LEVELS:
            return inf
        if self.level < 0:
            return 0.0
        whole, rest = divmod(-2 * self.level, _STEPS)
        return _MARGIN * ldexp(_ROOTS[rest], -whole)

    def add(self, least: Array, left: RowStatistics, right: RowStatistics) -> None:
        """Add pairs, of which `Engine.multiply_octaves` has found `least`."""
        (rows, far), (columns, too) = (self._weigh(x, least) for x in (left, right))
        for own in _cut_rows(least):
            levels = _find_levels(least[own], rows[own], columns)
            unknown = least[own] >= FAR
            # Pairs without a known term have one that is far, or none at all.
            levels[unknown] = _NOWHERE
            levels[unknown & (far[own, np.newaxis] | too)] = _BEYOND
            self.level = max(self.level, int(levels.max()) if levels.size else _NOWHERE)

    def multiply(
        self,
        engine: Any,
        tiles: Iterable[tuple[Array, Array]],
        left: RowStatistics,
        right: RowStatistics,
    ) -> None:
        """Add the pairs of two rows of tiles, by the octaves of both along all of k.

        Of a list, some rows are finished before all others, which end early then.
        """
        least = enough = None
        left, right = left.on_host(), right.on_host()  # once
        if self._k > _LONG and isinstance(tiles, list):
            least = _meet_largest(tiles)
            rows, columns = (self._weigh(x, least)[0] for x in (left, right))
            each = ((least[x], rows[x]) for x in _cut_rows(least))
            tops = [_find_levels(*x, columns).max(axis=1) for x in each]
            first = join(tops).argsort()[-_FIRST:]
            # Few rows are on the right, where the CPU's engine turns them.
            own, most = least[first].T.copy(), np.int16(self.level)
            enough = -columns, -rows[first] + most
            for x, y in tiles:
                own = engine.multiply_octaves(y, x[first], own, enough)
            least[first] = own.T
            self.add(own.T, left.take(convert(first, "numpy")), right)
            enough = -rows + np.int16(self.level), -columns
        for x, y in tiles:
            least = engine.multiply_octaves(x, y, least, enough)
        self.add(least, left, right)

    def _weigh(self, measured: RowStatistics, like: Array) -> tuple[Array, Array]:
        """Return the levels of rows by their norms, and which have far entries."""
        _, squares, _, _, counts = measured.on_host()
        steps = norm_steps(squares, self._k) + _STEPS
        steps[squares == 0] = _NOWHERE // 2  # they meet nothing
        found = steps.astype(np.int16), counts[:, -1] > counts[:, -2]
        weights, far = (convert(x, family_of(like)) for x in found)
        return weights, far


def _cut_rows(least: Array) -> Iterator[slice]:
    """Cut pairs into parts that fit into a cache, or into larger ones on a device."""
    size = _ROWS if family_of(least) == "numpy" else 16 * _ROWS
    return (slice(lo, lo + size) for lo in range(0, len(least), size))


def _find_levels(least: Array, rows: Array, columns: Array) -> Array:
    """Find the levels of pairs, as if all had a known term."""
    levels: Array = least * np.int16(_STEPS) + columns
    levels += rows[:, np.newaxis]
    return levels


def _meet_largest(tiles: Sequence[tuple[Array, Array]]) -> Array:
    """Return the sums of octaves where either row of a pair has its largest entry."""
    x, y = tiles[0]
    xp = namespace(x)
    least = xp.full((len(x), len(y)), NONE, np.uint8)
    for x, y in tiles:
        for own, other, to in ((x, y, least), (y, x, least.T)):
            at = own.argmin(axis=1)
            (rows,) = xp.nonzero(own[xp.arange(len(own)), at] == 0)
            to[rows] = xp.minimum(to[rows], other[:, at[rows]].T)
    return least
