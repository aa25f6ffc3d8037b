"""Bounds for pairs of rows and columns that their angles leave open.

The error of a product is relative to ``||a_i|| ||b_j||``. That of the native one is
relative to ``(|A| |B|)_ij``, which may be much smaller: by a factor of

    rho = max_ij ||a_i|| ||b_j|| / (|A| |B|)_ij

so that ``|dC_ij| <= sqrt(k) u (|A| |B|)_ij`` takes ``2 log2 rho`` bits of M more than
the same bound relative to the norms. Entries that are 0 for lack of common nonzeros
have no error, and do not count.

Nobody needs to know rho where the second fewest moduli suffice. So pairs are closed
where a bound of ``(|A| |B|)_ij`` from below shows that: leading digits of all
magnitudes, by one int8 product or three, and only for the pairs that are left, the
worst first, magnitudes of 8 bits and their exponents, term by term. A pair that has
been closed by one bound would be closed by each later one, but for those by angles,
which are looked at pair by pair: so the largest rho of the pairs that are left is the
same for every tiling.

All is exact integers, IEEE operations that round each by itself, and maxima.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from math import inf
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ...kernels.family import convert, family_of
from ...moduli import norm_bits
from ...moduli.accuracy import componentwise_system, fewest_systems
from ...typing import Array
from ..spec import Spec, load_engine
from .angles import bound_ratios, find_cosines
from .measured import Measured

# Rows and columns whose product is held at once.
_BLOCK = 2048
# Pairs in the block for each one that is looked at term by term: an int8 product takes
# as long as this, of all pairs.
_FEW = 64
# Pairs of a block that are looked at first.
_WORST = 256
# Magnitudes are rounded to float32 before they are cut, each by up to 2^-24.
_MARGIN = 2.0**-21

Tiles = Callable[[], Iterable[tuple[Array, Array]]]


class _Rows(NamedTuple):
    """Rows of a side with finite entries other than 0, in the units of magnitudes."""

    places: Array
    squares: Array
    cosines: Array

    def take(self, which: Any) -> "_Rows":
        return _Rows(*(x[which] for x in self))


class _Pairs(NamedTuple):
    """Pairs of rows x and columns y, with bounds of their rho^2 from above."""

    rows: Array
    columns: Array
    ratios: Array

    def take(self, which: Array) -> "_Pairs":
        return _Pairs(*(x[which] for x in self))


def magnitude_bits(k: int) -> int:
    """Bits b of a magnitude so that sums of products below 2^(2b+1) fit 63 bits."""
    return min(20, (62 - k.bit_length()) // 2)


def largest_open_ratio(
    tiles: Tiles, left: Measured, right: Measured, spec: Spec, found: float = 0.0
) -> float:
    """Return the largest rho_ij^2 for which the second fewest moduli do not suffice.

    Or `found` if that is larger; of several that no moduli suffice for, any.

    Parameters
    ----------
    tiles : callable
        Gives the magnitudes of all rows and columns, tile by tile along k.
    left, right : Measured
        Of the same rows and columns; one object if the columns are the rows.
    spec : Spec
    found : float, optional
        The largest of other rows and columns.
    """
    systems = fewest_systems(spec.method, spec.k, spec.unit_roundoff)
    if not systems:
        return inf
    limit = systems[-1][1]
    x, y = (_list_rows(side, spec.k) for side in (left, right))
    for i in range(0, len(x.places), _BLOCK):
        # If columns are rows, one half of the pairs is the other.
        for j in range(i if left is right else 0, len(y.places), _BLOCK):
            both = x.take(slice(i, i + _BLOCK)), y.take(slice(j, j + _BLOCK))
            found = _Meeting(tiles, *both, limit, spec).largest_ratio(found)
            if not _is_reachable(found, spec):
                return found
    return found


def _list_rows(measured: Measured, k: int) -> _Rows:
    squares = convert(measured.squares, "numpy").astype(np.float64)
    every = np.arange(len(squares)), squares * 2.0 ** (-2 * norm_bits(k))
    return _Rows(*every, find_cosines(measured, k)).take(squares > 0)


def _is_reachable(ratio: float, spec: Spec) -> bool:
    """Tell whether any moduli suffice."""
    given = spec.method, spec.k, ratio, spec.unit_roundoff
    return ratio == 0 or componentwise_system(*given) is not None


class _Meeting:
    """Pairs of rows that are bounded together, but those that their angles close."""

    def __init__(
        self, tiles: Tiles, x: _Rows, y: _Rows, limit: float, spec: Spec
    ) -> None:
        self.tiles, self.limit, self.spec = tiles, limit, spec
        self.x, self.y = _drop_closed(x, y, limit), _drop_closed(y, x, limit)
        self.engine = load_engine(spec)

    def largest_ratio(self, found: float) -> float:
        """Return the largest rho_ij^2 above the limit, or `found` if that is larger."""
        size = len(self.x.places) * len(self.y.places)
        if size == 0:
            return found
        many = max(_WORST, size // _FEW)
        pairs = self.list_open(self.multiply(1), 2.0**-12, found, many)
        if pairs is None:
            sums = self.multiply(2)
            # What the worst take closes most others.
            found = self.look(self.find_worst(sums), found)
            pairs = self.list_open(sums, 2.0**-19, found, size)
            assert pairs is not None
            if len(pairs.rows) > many:
                pairs = pairs.take(_pick(self.multiply(0), pairs) > 0)
        worst = np.argsort(-pairs.ratios, kind="stable")
        for some in (worst[:_WORST], worst[_WORST:]):
            # No others can have a larger ratio.
            own = some[pairs.ratios[some] > max(self.limit, found)]
            if len(own) and _is_reachable(found, self.spec):
                found = self.look(pairs.take(own), found)
        return found

    def multiply(self, digits: int) -> Array:
        """Multiply the leading digits of magnitudes, tile by tile along k."""
        multiply, (x, y) = self.engine.multiply_digits, (self.x.places, self.y.places)
        tiles = ((_take_rows(a, x), _take_rows(b, y)) for a, b in self.tiles())
        return reduce(add, (multiply(*both, digits) for both in tiles))

    def list_open(
        self, sums: Array, unit: float, found: float, most: int
    ) -> _Pairs | None:
        """List the pairs that products of digits leave open, if they are few."""
        x, y = self.x, self.y
        factor = max(self.limit, found) * unit**2 / (1 + _MARGIN)
        listed = self.engine.find_open(sums, x.squares, y.squares, factor, most)
        if listed is None:
            return None
        rows, columns, products = listed
        angles = bound_ratios(x.cosines[rows], y.cosines[columns])
        own = angles > self.limit
        return self.bound(rows[own], columns[own], products[own] * unit)

    def find_worst(self, sums: Array) -> _Pairs:
        """Take the pair of each row with the smallest product, but 0, for its norms."""
        squares = sums.astype(np.float64)
        squares[sums == 0] = np.inf
        squares *= squares
        squares /= convert(self.y.squares, family_of(sums))
        columns = convert(squares.argmin(axis=1), "numpy")
        angles = bound_ratios(self.x.cosines, self.y.cosines[columns])
        pairs = _Pairs(np.arange(len(columns)), columns, angles)
        return pairs.take(angles > self.limit)

    def look(self, pairs: _Pairs, found: float) -> float:
        """Return the largest ratio of pairs, term by term, or `found`."""
        if len(pairs.rows) == 0:
            return found
        places, b = (self.x.places, self.y.places), magnitude_bits(self.spec.k)
        own = places[0][pairs.rows], places[1][pairs.columns], b
        each = (self.engine.bound_pairs(*both, *own) for both in self.tiles())
        sums, terms = zip(*each, strict=True)
        # 0 where there is no term, by underflow.
        alone = np.ldexp(1.0, reduce(np.maximum, terms))
        lower = np.maximum(reduce(add, sums) * 2.0 ** (-2 * b), alone)
        meet = lower > 0
        ratios = self.bound(pairs.rows[meet], pairs.columns[meet], lower[meet]).ratios
        return max(found, float(ratios[ratios > self.limit].max(initial=0.0)))

    def bound(self, rows: Array, columns: Array, lower: Array) -> _Pairs:
        """Bound rho_ij^2 from above, by bounds of products from below."""
        # A and B may change places: each operation is symmetric in both.
        above = self.x.squares[rows] * self.y.squares[columns] * (1 + _MARGIN)
        with np.errstate(divide="ignore"):
            return _Pairs(rows, columns, above / (lower * lower))


def _drop_closed(rows: _Rows, others: _Rows, limit: float) -> _Rows:
    """Leave out the rows that are closed by their angles, whatever the other one is."""
    least = others.cosines.min(initial=1.0)
    return rows.take(bound_ratios(rows.cosines, least) > limit)


def _take_rows(side: Array, places: Array) -> Array:
    """Take rows of a tile: neighbours without a copy."""
    first, last = int(places[0]), int(places[-1])
    if last - first == len(places) - 1:
        return side[first : last + 1]
    return side[convert(places, family_of(side))]


def _pick(x: Array, pairs: _Pairs) -> Array:
    """Return the numbers of some pairs, on the host."""
    family = family_of(x)
    which = convert(pairs.rows, family), convert(pairs.columns, family)
    return convert(x[which], "numpy")
