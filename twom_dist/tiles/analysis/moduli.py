"""The part of the program that chooses moduli for every pair of rows and columns.

Sums and octaves of rows bound rho for all pairs. Only if these bounds are too weak do
tasks find octaves of entries and multiply them.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from ..grid import Grid
from ..interpreter import Analyser, Line, Shifts, Value, by_line, lines, strips
from ..spec import Spec
from . import pair_stages


def settle_by_rows(ex: Analyser, spec: Spec, measured: Mapping[Line, Value]) -> Value:
    """Choose moduli for every pair by what was measured of rows, or leave them open."""
    sides = [[measured[x, i] for i in ex.lines(x, wanted=False)] for x in spec.sides]
    first = ex.call("spec", ("sums",), pair_stages.settle_by_rows, spec, *sides)
    return ex.settle(first)


def choose_moduli(
    ex: Analyser,
    spec: Spec,
    settled: Value,
    shifts: Shifts,
    measured: Mapping[Line, Value],
) -> Value:
    """Choose moduli that rows have not `settled`, by products of octaves."""
    if isinstance(settled, Spec) and not settled.data_driven:
        return settled
    rows, find = strips(ex, lines(ex, spec), shifts), pair_stages.look_closer
    cases = {x: (row, measured[x[:2]], settled) for x, row in rows.items()}
    taken, found = by_line(ex.each("octaves", find, spec, cases)), []
    for where, *ends, pairs in ex.pair_blocks():
        both = [[[of[x] for x in own] for own in ends] for of in (taken, measured)]
        found.append(bound(ex, where, (spec, settled, pairs), *both))
    last = ex.call("spec", (0,), pair_stages.settle_by_pairs, spec, settled, found)
    return ex.settle(last)


def bound(
    ex: Analyser, where: tuple[int, ...], given: Any, taken: Any, known: Any
) -> Value:
    """Bound pairs by all of k, or by a part of it in each layer of workers."""
    layers, of_layer = strips_of_layers(ex.grid), len(where) > 2
    if of_layer or len(layers) == 1:
        at = where if of_layer else (*where, 0)
        return ex.call("pairs", at, pair_stages.bound_pairs, *given, *taken, *known)
    multiply, parts = pair_stages.multiply_octaves, []
    for layer, own in enumerate(layers):
        both = [[[row[s] for s in own] for row in side] for side in taken]
        parts.append(ex.call("pairs", (*where, layer), multiply, *given, *both))
    at = (*where, len(layers))
    return ex.call("pairs", at, pair_stages.bound_parts, *given, parts, *known)


def strips_of_layers(grid: Grid) -> list[list[int]]:
    """List the strips that begin in each layer, of those where any does."""
    ends = [part[-1][-1][1] for part in grid.layers]
    own: list[list[int]] = [[] for _ in ends]
    for s, (first, _) in enumerate(grid.strips):
        own[bisect_right(ends, first)].append(s)
    return [*filter(None, own)]
