"""The stages of `program` that choose moduli: by sums of rows, and by pairs of them.

They never write to their inputs, as those of `stages` do not.
"""

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import chain
from operator import add
from typing import Any

from ..kernels.family import convert
from ..moduli import norm_bits, scaling_rule
from ..typing import Array, Cell
from .look import every_pair, settle
from .look.angles import bound_ratio, smallest_cosine
from .look.measured import Measured, join
from .rows import Row, Steps, Stream
from .spec import Spec, load_engine


def settle_by_sums(
    spec: Spec, left: Sequence[Measured], *right: Sequence[Measured]
) -> Spec:
    """Choose the moduli by the sums of all rows and columns, where these suffice.

    `right`: those of op(B), unless they are those of op(A).
    """
    sides = left, *right
    cosines = [smallest_cosine(x, spec.k) for x in sides]
    return settle.settle_by_angles(spec, bound_ratio(cosines[0], cosines[-1]))


def look_closer(
    spec: Spec, row: Row, measured: Measured, settled: Spec
) -> Sequence[Array]:
    """Take what is asked for: sums of rounding errors, or magnitudes, tile by tile.

    Magnitudes of a stream are taken when they are multiplied.
    """
    if not settled.by_entries:
        return []
    engine = load_engine(spec)
    largest = convert(measured.largest, engine.family)
    if settled.asks_for_errors:
        rule, bits = scaling_rule(settled.system, spec.k), norm_bits(spec.k)
        assert rule is not None
        squares = convert(measured.squares, engine.family)
        e = engine.choose_exponents(largest, squares, rule)
        each = (row.shifted(step, spec) for step in row.steps)
        sums = (engine.error_sums(x, e, bits, shifts) for x, shifts in each)
        return [reduce(add, sums)]

    # Not a function of this one: dask may send it, and no device can be sent.
    take = partial(_take_magnitudes, spec, row, largest)
    if not isinstance(row.tiles, Stream):
        return [*map(take, row.steps)]
    return Steps(row.tiles, take)


def _take_magnitudes(spec: Spec, row: Row, largest: Array, step: int) -> Array:
    x, shifts = row.shifted(step, spec)
    return load_engine(spec).magnitudes(x, largest, shifts)


def bound_pairs(
    spec: Spec,
    settled: Spec,
    pairs: Sequence[Cell],
    left: Sequence[Sequence[Sequence[Array]]],
    right: Sequence[Sequence[Sequence[Array]]],
    of_left: Sequence[Measured],
    of_right: Sequence[Measured],
) -> float:
    """Find the largest rho^2 of pairs that the sums of rows leave open.

    Or the largest sum of rounding errors. `left`, `right`: of each row of tiles and
    each strip, magnitudes of its tiles or sums of errors; `pairs`: which of them meet.
    """
    if not settled.by_entries:
        return 0.0
    if settled.asks_for_errors:
        # A device is waited for once.
        sums = [reduce(add, chain.from_iterable(x)) for x in (*left, *right)]
        errors = join(sums)
        return float(errors.max()) if errors.size else 0.0
    found = 0.0
    for i, j in pairs:

        def both(i: int = i, j: int = j) -> Iterator[tuple[Array, Array]]:
            sides = map(chain.from_iterable, (left[i], right[j]))
            return zip(*sides, strict=True)

        given = both, of_left[i], of_right[j], spec, found
        found = every_pair.largest_open_ratio(*given)
    return found


def multiply_digits(
    spec: Spec,
    settled: Spec,
    pairs: Sequence[Cell],
    left: Sequence[Sequence[Array]],
    right: Sequence[Sequence[Array]],
) -> list[Array]:
    """Multiply leading digits of pairs, of one strip; or pass on sums of errors."""
    if not settled.by_entries:
        return []
    if settled.asks_for_errors:
        return [*chain.from_iterable((*left, *right))]
    both = (zip(left[i], right[j], strict=True) for i, j in pairs)
    return [every_pair.multiply_digits(tiles, spec) for tiles in both]


def add_arrays(parts: Sequence[list[Array]]) -> list[Array]:
    """Add what strips have found, array by array."""
    return [reduce(add, each) for each in zip(*parts, strict=True)]


def list_open(
    spec: Spec,
    settled: Spec,
    pairs: Sequence[Cell],
    sums: Sequence[Array],
    of_left: Sequence[Measured],
    of_right: Sequence[Measured],
) -> list[Any]:
    """List the open pairs of each pair of lines; or the largest sum of errors."""
    if not settled.by_entries:
        return []
    if settled.asks_for_errors:
        errors = join(sums)
        return [float(errors.max()) if errors.size else 0.0]
    lines = ((of_left[i], of_right[j]) for i, j in pairs)
    both = zip(lines, sums, strict=True)
    return [every_pair.list_open(*given, own, spec) for given, own in both]


def sum_terms(
    spec: Spec,
    settled: Spec,
    pairs: Sequence[Cell],
    listed: Sequence[Any],
    left: Sequence[Sequence[Array]],
    right: Sequence[Sequence[Array]],
) -> list[Any]:
    """Sum the terms of open pairs, of one strip."""
    if not settled.by_entries or settled.asks_for_errors:
        return []
    both = (zip(left[i], right[j], strict=True) for i, j in pairs)
    each = zip(both, listed, strict=True)
    return [every_pair.sum_terms(tiles, own, spec) for tiles, own in each]


def add_terms(parts: Sequence[list[Any]]) -> list[Any]:
    """Combine the terms of all strips."""
    return [reduce(every_pair.add_terms, each) for each in zip(*parts, strict=True)]


def bound_open(
    spec: Spec,
    settled: Spec,
    pairs: Sequence[Cell],
    listed: Sequence[Any],
    terms: Sequence[Any],
    of_left: Sequence[Measured],
    of_right: Sequence[Measured],
) -> float:
    """Find the largest rho^2, or sum of errors, as `bound_pairs` does."""
    if not settled.by_entries or settled.asks_for_errors:
        return max(listed, default=0.0)
    lines = ((of_left[i], of_right[j]) for i, j in pairs)
    each = zip(lines, listed, terms, strict=True)
    return max(every_pair.bound_open(*x, own, sums, spec) for x, own, sums in each)


def settle_by_pairs(spec: Spec, settled: Spec, found: Sequence[float]) -> Spec:
    """Choose the moduli by what has been found of all pairs, if they were looked at."""
    if not settled.by_entries:
        return settled
    largest = max(found, default=0.0)
    if settled.asks_for_errors:
        return settle.settle_by_errors(settled, largest)
    return settle.settle_by_ratio(settled, largest)
