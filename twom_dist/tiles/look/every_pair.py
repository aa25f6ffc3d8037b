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
from typing import Any, NamedTuple

import numpy as np

from ...kernels.family import convert, family_of
from ...kernels.stack_summary import MAGNITUDE_MARGIN
from ...moduli import norm_bits
from ...moduli.accuracy import componentwise_system, fewest_systems
from ...typing import Array
from ..spec import Spec, load_engine
from .angles import bound_ratio, bound_ratios, find_cosines
from .measured import Measured

# Rows and columns whose product is held at once. The host of a GPU takes as long for
# many pairs as for few.
_BLOCK = {"numpy": 2048, "cupy": 4096}
# Pairs in the block for each one that is looked at term by term: an int8 product takes
# as long as this, of all pairs. A GPU waits for the host to list them, too: 16 blocks
# with up to 65000 each took 50 ms (H100, k = 8192).
_FEW = {"numpy": 64, "cupy": 2048}
# Pairs that are looked at in any case, together; of more, the worst first.
_ANY, _WORST = 4096, 256

Tiles = Callable[[], Iterable[tuple[Array, Array]]]


class _Rows(NamedTuple):
    """Rows of a side, in the units of magnitudes; those without any have squares 0."""

    places: Array
    squares: Array
    cosines: Array

    def take(self, which: Any) -> "_Rows":
        return _Rows(self.places[which], self.squares[which], self.cosines[which])


class _Pairs(NamedTuple):
    """Pairs of rows x and columns y, with bounds of their rho^2 from above."""

    rows: Array
    columns: Array
    ratios: Array

    def take(self, which: Array) -> "_Pairs":
        return _Pairs(self.rows[which], self.columns[which], self.ratios[which])


def magnitude_bits(k: int) -> int:
    """Bits b of a magnitude: sums of products below 2^(2b+1) fit 53 bits, if k < 2^26.

    At least 13, those of two digits; then they fit 63 bits for any k below 2^36.
    """
    return max(13, min(20, (52 - k.bit_length()) // 2))


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
    x, y = (_list_rows(each, spec.k) for each in (left, right))
    side, digits = _BLOCK[load_engine(spec).family], 1
    for i in range(0, len(x.places), side):
        # If columns are rows, one half of the pairs is the other.
        for j in range(i if left is right else 0, len(y.places), side):
            both = x.take(slice(i, i + side)), y.take(slice(j, j + side))
            pairs = _OpenPairs(tiles, *both, limit, spec, digits)
            largest = pairs.largest_ratio(found)
            if not _is_reachable(largest, spec):
                return largest
            # Where that of a pair is not larger, it will not close others.
            digits = pairs.digits if largest == found else 1
            found = largest
    return found


# --- the same of strips, where no task has all of a row ------------------------------


def multiply_digits(tiles: Iterable[tuple[Array, Array]], spec: Spec) -> Array:
    """Multiply 13 bits of the magnitudes of a strip, tile by tile."""
    multiply = load_engine(spec).multiply_digits
    return reduce(_add, (multiply(*both, 2) for both in tiles))


def list_open(left: Measured, right: Measured, sums: Array, spec: Spec) -> Array:
    """List the rows and columns, (2, pairs), that the sums of all strips leave open."""
    pairs = _whole(left, right, spec)
    if pairs is None:
        return np.zeros((2, 0), np.int64)
    x, y = pairs.x.places, pairs.y.places
    own = _take_rows(_take_rows(sums, x).T, y).T
    listed = pairs.list_open(own, 2.0**-19, 0.0, own.size)
    assert listed is not None
    return np.stack((x[listed.rows], y[listed.columns]))


def sum_terms(
    tiles: Iterable[tuple[Array, Array]], listed: Array, spec: Spec
) -> tuple[Array, Array]:
    """Sum the terms of listed pairs, and find the largest, over a strip."""
    (rows, columns), b = listed, magnitude_bits(spec.k)
    bound = load_engine(spec).bound_pairs
    return reduce(add_terms, (bound(x, y, rows, columns, b) for x, y in tiles))


def add_terms(x: tuple[Array, Array], y: tuple[Array, Array]) -> tuple[Array, Array]:
    """Combine the terms of two parts along k."""
    return x[0] + y[0], np.maximum(x[1], y[1])


def bound_open(
    left: Measured,
    right: Measured,
    listed: Array,
    terms: tuple[Array, Array],
    spec: Spec,
) -> float:
    """Return what `largest_open_ratio` does, by the terms of all strips."""
    if not fewest_systems(spec.method, spec.k, spec.unit_roundoff):
        return inf
    pairs = _whole(left, right, spec)
    if pairs is None or listed.size == 0:
        return 0.0
    rows, columns = listed
    x = np.searchsorted(pairs.x.places, rows)
    y = np.searchsorted(pairs.y.places, columns)
    return pairs.largest_of(x, y, terms, 0.0)


def _whole(left: Measured, right: Measured, spec: Spec) -> "_OpenPairs | None":
    """Return the pairs of all rows and columns, if any are open."""
    systems = fewest_systems(spec.method, spec.k, spec.unit_roundoff)
    x, y = (_list_rows(side, spec.k) for side in (left, right))
    pairs = _OpenPairs(tuple, x, y, systems[-1][1] if systems else 0.0, spec)
    some = len(pairs.x.places) and len(pairs.y.places) and systems
    return pairs if some else None


def _list_rows(measured: Measured, k: int) -> _Rows:
    squares = convert(measured.squares, "numpy") * 2.0 ** (-2 * norm_bits(k))
    return _Rows(np.arange(len(squares)), squares, find_cosines(measured, k))


def _is_reachable(ratio: float, spec: Spec) -> bool:
    """Tell whether any moduli suffice."""
    given = spec.method, spec.k, ratio, spec.unit_roundoff
    return ratio == 0 or componentwise_system(*given) is not None


class _OpenPairs:
    """Pairs of rows that are bounded together, but those that their angles close."""

    def __init__(
        self,
        tiles: Tiles,
        x: _Rows,
        y: _Rows,
        limit: float,
        spec: Spec,
        digits: int = 1,
    ) -> None:
        self.tiles, self.limit, self.spec, self.digits = tiles, limit, spec, digits
        self.x, self.y = _drop_closed(x, y, limit), _drop_closed(y, x, limit)
        self.engine = load_engine(spec)

    def largest_ratio(self, found: float) -> float:
        """Return the largest rho_ij^2 above the limit, or `found` if that is larger."""
        size = len(self.x.places) * len(self.y.places)
        if size == 0:
            return found
        many = max(_ANY, size // _FEW[self.engine.family])
        while True:
            unit, most = (2.0**-12, many) if self.digits == 1 else (2.0**-19, size)
            sums = self.multiply(self.digits)
            pairs = self.list_open(sums, unit, found, many)
            if pairs is None:
                # What the worst take closes most others.
                found = self.look(self.find_worst(sums), found)
                if not _is_reachable(found, self.spec):
                    return found
                pairs = self.list_open(sums, unit, found, most)
            if pairs is not None:
                break
            self.digits = 2
        if len(pairs.rows) > many:
            pairs = pairs.take(_pick(self.multiply(0), pairs) > 0)
        count = len(pairs.rows)
        if count == 0:
            return found
        if count > _ANY:
            worst = np.argpartition(pairs.ratios, count - _WORST)[count - _WORST :]
            found = self.look(pairs.take(worst), found)
            pairs.ratios[worst] = 0
        # No others can have a larger ratio.
        rest = pairs.take(pairs.ratios > max(self.limit, found))
        return self.look(rest, found) if _is_reachable(found, self.spec) else found

    def multiply(self, digits: int) -> Array:
        """Multiply the leading digits of magnitudes, tile by tile along k."""
        multiply, (x, y) = self.engine.multiply_digits, (self.x.places, self.y.places)
        tiles = ((_take_rows(a, x), _take_rows(b, y)) for a, b in self.tiles())
        return reduce(_add, (multiply(*both, digits) for both in tiles))

    def list_open(
        self, sums: Array, unit: float, found: float, most: int
    ) -> _Pairs | None:
        """List the pairs that products of digits leave open, if they are few."""
        x, y = self.x, self.y
        factor = max(self.limit, found) * unit**2 / (1 + MAGNITUDE_MARGIN)
        listed = self.engine.find_open(sums, x.squares, y.squares, factor, most)
        if listed is None:
            return None
        rows, columns, products = listed
        angles = bound_ratios(x.cosines[rows], y.cosines[columns])
        own = angles > self.limit
        return self.bound(rows[own], columns[own], products[own] * unit)

    def find_worst(self, sums: Array) -> _Pairs:
        """Take the pair of each row with the smallest product for its norms."""
        squares = sums.astype(np.float64)
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
        return self.largest_of(
            pairs.rows, pairs.columns, reduce(add_terms, each), found
        )

    def largest_of(
        self, rows: Array, columns: Array, terms: tuple[Array, Array], found: float
    ) -> float:
        """Return the largest ratio of pairs by all their terms, or `found`."""
        sums, exponents = terms
        unit = 2.0 ** (-2 * magnitude_bits(self.spec.k))
        # 0 where there is no term, by underflow.
        lower = np.maximum(sums * unit, np.ldexp(1.0, exponents))
        meet = lower > 0
        ratios = self.bound(rows[meet], columns[meet], lower[meet]).ratios
        return max(found, float(ratios[ratios > self.limit].max(initial=0.0)))

    def bound(self, rows: Array, columns: Array, lower: Array) -> _Pairs:
        """Bound rho_ij^2 from above, by bounds of products from below."""
        # A and B may change places: each operation is symmetric in both.
        above = self.x.squares[rows] * self.y.squares[columns] * (1 + MAGNITUDE_MARGIN)
        with np.errstate(divide="ignore"):
            return _Pairs(rows, columns, above / (lower * lower))


def _add(x: Array, y: Array) -> Array:
    """Add products of two tiles along k: more of them than 32 bits hold."""
    found: Array = x + y.astype(np.int64)
    return found


def _drop_closed(rows: _Rows, others: _Rows, limit: float) -> _Rows:
    """Leave out rows of zeros, and those that their angles close for any other row."""
    least = others.cosines.min(initial=1.0)
    # Once rounded, bounds fall with cosines but for some 2^-53.
    limit, most = limit * (1 - 2.0**-40), rows.cosines.max(initial=-1.0)
    if bound_ratio(float(most), float(least)) > limit and (rows.squares > 0).all():
        return rows
    return rows.take((bound_ratios(rows.cosines, least) > limit) & (rows.squares > 0))


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
