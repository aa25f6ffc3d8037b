"""The stages of `program` that choose moduli: by statistics of rows, else by pairs.

Like the functions of `stages`, they never write to their inputs.
"""

from collections.abc import Sequence
from functools import partial, reduce
from itertools import chain
from math import sqrt
from operator import add
from typing import Any

import numpy as np

from ...errors import warn_of_native
from ...kernels.family import convert, join
from ...kernels.statistics import RowStatistics, smallest_cosines
from ...moduli import scaling_rule
from ...typing import Array, Cell
from .. import tasks
from ..rows import Row, Steps, Stream
from ..spec import Spec, load_engine
from . import decisions
from .angles import bound_ratio
from .ratios import LargestTerms, bound_by_octaves

Ends = Sequence[Sequence[Sequence[Array]]]  # by row of tiles, strip and tile


def settle_by_rows(
    spec: Spec, left: Sequence[RowStatistics], *right: Sequence[RowStatistics]
) -> Spec:
    """Choose the moduli by sums and octaves of all rows, of op(A) alone if B is A."""
    sides = left, *right
    rows = ((x.on_host() for x in tiles) for tiles in sides)
    cosines = [float(smallest_cosines([*x], spec.k).min()) for x in rows]
    found = decisions.decide_by_angles(spec, bound_ratio(cosines[0], cosines[-1]))
    if found is not None:
        # Rounding errors may allow these moduli, where nothing has closed the question.
        return spec.with_moduli(*found, data_driven=not found.decided_by)
    ratio = float(bound_by_octaves(sides[0], sides[-1], spec.k)[0])
    found = decisions.decide_by_octaves(spec, ratio)
    if found is None:
        # Pairs may lower the bound.
        return spec.with_moduli(spec.system, sqrt(ratio), "octaves", data_driven=True)
    return spec.with_moduli(*found)


def look_closer(
    spec: Spec, row: Row, measured: RowStatistics, settled: Spec
) -> Sequence[Array]:
    """Compute what `settled` needs: squared rounding errors of rows, or octaves."""
    if not settled.data_driven:
        return []
    engine = load_engine(spec)
    largest = convert(measured.largest, engine.family)
    if settled.asks_for_errors:
        rule = scaling_rule(settled.system, spec.k)
        assert rule is not None
        known = RowStatistics(largest, convert(measured.squares, engine.family))
        each = (row.view_shifted(step, spec) for step in row.steps)
        sums = (engine.error_sums(x, known, rule, shifts) for x, shifts in each)
        return [reduce(add, sums)]

    # Not a function of this one: dask may send it, and no device can be sent.
    take = partial(_take_octaves, spec, row, largest)
    if not isinstance(row.tiles, Stream):
        return [*map(take, row.steps)]
    return Steps(row.tiles, take)  # they are taken when they are multiplied


def _take_octaves(spec: Spec, row: Row, largest: Array, step: int) -> Array:
    x, shifts = row.view_shifted(step, spec)
    return load_engine(spec).octaves(x, largest, shifts)


def multiply_octaves(
    spec: Spec, settled: Spec, pairs: Sequence[Cell], left: Ends, right: Ends
) -> list[Array]:
    """Find the least sums of octaves of pairs; or pass on sums of errors.

    `left`, `right`: of each row of tiles and each strip, either; `pairs`: which meet.
    """
    if not settled.data_driven:
        return []
    if settled.asks_for_errors:
        # The strips of a row of tiles are added first: a device is waited for once.
        return [reduce(add, chain.from_iterable(x)) for x in (*left, *right)]
    multiply, found = load_engine(spec).multiply_octaves, []
    for i, j in pairs:
        least = None
        for x, y in zip(*map(chain.from_iterable, (left[i], right[j])), strict=True):
            least = multiply(x, y, least)
        found.append(least)
    return found


def bound_pairs(
    spec: Spec,
    settled: Spec,
    pairs: Sequence[Cell],
    left: Ends,
    right: Ends,
    *known: Sequence[RowStatistics],
) -> float:
    """Find the largest bound of rho^2 of pairs, or the largest sum of errors."""
    if not settled.data_driven or settled.asks_for_errors:
        parts = [multiply_octaves(spec, settled, pairs, left, right)]
        return bound_parts(spec, settled, pairs, parts, *known)
    terms, (of_left, of_right) = LargestTerms(spec.k), known
    for i, j in pairs:
        tiles: Any = zip(*map(chain.from_iterable, (left[i], right[j])), strict=True)
        if all(isinstance(x, list) for x in (*left[i], *right[j])):
            # Lists can be gone through twice, unlike octaves that are made when needed.
            tiles = [x for x in tiles if x[0].size and x[1].size]
        if tiles:
            terms.multiply(load_engine(spec), tiles, of_left[i], of_right[j])
    return terms.ratio


def bound_parts(
    spec: Spec,
    settled: Spec,
    pairs: Sequence[Cell],
    parts: Sequence[list[Array]],
    left: Sequence[RowStatistics],
    right: Sequence[RowStatistics],
) -> float:
    """Find the same from what `multiply_octaves` has found of parts of k."""
    if not settled.data_driven:
        return 0.0
    combine = add if settled.asks_for_errors else np.minimum
    found = (reduce(combine, each) for each in zip(*parts, strict=True))
    if settled.asks_for_errors:
        errors = join([*found])
        return float(errors.max()) if errors.size else 0.0
    terms = LargestTerms(spec.k)
    for (i, j), least in zip(pairs, found, strict=True):
        terms.add(least, left[i], right[j])
    return terms.ratio


def settle_by_pairs(spec: Spec, settled: Spec, found: Sequence[float]) -> Spec:
    """Choose the moduli by what has been found of all pairs, if they were analysed."""
    if not settled.data_driven:
        return settled
    largest = max(found, default=0.0)
    ways = decisions.decide_by_pairs, decisions.decide_by_errors
    decide = ways[settled.asks_for_errors]
    decided = settled.with_moduli(*decide(settled, settled.rho, largest))
    if decided.stands_in and spec.lazy:
        # Tasks have no caller to warn; eager products and jobs warn by themselves.
        warn_of_native(tasks.on_worker())
    return decided
