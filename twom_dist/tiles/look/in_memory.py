"""The look at matrices in memory, by engines that have all stages at once.

Everything that may be needed is found together and fetched by one wait, since waiting
costs a device more than the stages do. There a few numbers mostly decide. Only matrices
whose columns may be shifted, or whose pairs stay open, take a second look.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

from ...kernels.family import convert
from ...kernels.survey import Surveyed, Weighed
from ...moduli import norm_bits, scaling_rule
from ...typing import Array
from ..interpreter import Line
from ..rows import Row, shifts_of_both
from ..spec import Spec, load_engine
from .angles import bound_ratio
from .equilibration import choose_shifts, may_gain
from .measured import Measured
from .ratios import bound_by_octaves, bound_by_terms
from .settle import (
    Decision,
    decide_by_angles,
    decide_by_errors,
    decide_by_octaves,
    decide_by_pairs,
    fewest_of,
)

# Rows whose products of octaves with all others are held at once.
_ROWS = 4096


def plan_weighing(spec: Spec) -> Callable[..., Weighed]:
    """Return what finds the numbers that mostly decide about one or two whole matrices.

    It takes op(A), and op(B)^T unless that is the same, but for conjugates; and what is
    called before the wait.
    """
    rule, systems = None, fewest_of(spec) if spec.by_entries else []
    if systems and not systems[0][0].hexagonal:
        # That of the fewest moduli, which rounding errors may allow.
        rule = scaling_rule(systems[0][0], spec.k)
    given: Any = {"norm_bits": norm_bits(spec.k), "columns": spec.equilibrate}
    return partial(load_engine(spec).weigh, **given, rule=rule)


def may_shift(weighed: Weighed, k: int) -> bool:
    """Tell whether `choose_shifts` may find shifts."""
    return weighed.columns is not None and bool(may_gain(weighed.columns, k))


def decide(operands: Sequence[Array], weighed: Weighed, spec: Spec) -> Decision:
    """Decide about the moduli: by the numbers, or by what they leave open.

    `operands`: of which the numbers are.
    """
    found = decide_by_angles(spec, bound_ratio(*weighed.cosines))
    if found is not None:
        if found.closed_by:
            return found
        return decide_by_errors(spec, found.rho, weighed.largest_error())
    engine, known = load_engine(spec), weighed.surveyed()
    both = zip(operands, known, strict=True)
    octaves = [engine.octaves(x, own.largest_exponents) for x, own in both]
    counts = [engine.count_octaves(x) for x in octaves]
    squares = engine.fetch([x.squares for x in known])
    each = zip(known, squares, counts, strict=True)
    sides = [
        Measured(x[0], y, octaves=engine.fetch([counted])[0]) for x, y, counted in each
    ]
    ratio = float(bound_by_octaves(sides[:1], sides[-1:], spec.k)[0])
    decision = decide_by_octaves(spec, ratio)
    if decision is not None:
        return decision
    x, y, left, right = octaves[0], octaves[-1], sides[0], sides[-1]
    largest = 0.0
    for lo in range(0, len(x), _ROWS):
        own = slice(lo, lo + _ROWS)
        least = engine.multiply_octaves(x[own], y)
        largest = bound_by_terms(least, left.take(own), right, spec.k, largest)
    return decide_by_pairs(spec, sqrt(ratio), largest)


def measure(rows: Sequence[Row], found: Sequence[Surveyed]) -> dict[Line, Measured]:
    """Return the measurements of whole matrices."""
    both = zip(rows, found, strict=True)
    return {(row.side, 0): Measured(*x[:3]) for row, x in both}


def survey_matrices(
    rows: Sequence[Row],
    spec: Spec,
    found: Sequence[Surveyed] | None = None,
) -> tuple[Any, dict[Line, Measured], dict[Line, Measured]]:
    """Look at one or two whole matrices, up to the sums of their rows.

    Returns the shifts, what has been measured, and the same on the host where that
    decides about anything. `found`: what an earlier look has found.
    """
    equilibrate, survey = spec.equilibrate, load_engine(spec).survey
    given = [row.view(0, spec) for row in rows]
    bits, totals = norm_bits(spec.k), spec.by_entries
    if found is None:
        found = survey(given, bits, totals=totals, columns=equilibrate)
    on_host = _fetch(found, spec) if spec.looks else found
    shifts = None
    if equilibrate:
        columns: list[Any] = [x.column_exponents for x in on_host]
        shifts = choose_shifts(columns[0], columns[-1], spec.dtype)
    if shifts is not None:
        for row in rows:
            row.shifts = [shifts]
        both = shifts_of_both(rows, spec)
        found = survey(given, bits, totals=totals, columns=False, shifts=both)
        on_host = _fetch(found, spec) if spec.by_entries else found
    measured, known = (measure(rows, each) for each in (found, on_host))
    if spec.by_entries:
        engine = load_engine(spec)
        for row, own in zip(rows, found, strict=True):
            x, e = row.shifted(0, spec)
            octaves = engine.octaves(x, own.largest_exponents, e)
            counts = convert(engine.count_octaves(octaves), "numpy")
            known[row.side, 0] = known[row.side, 0]._replace(octaves=counts)
    return None if shifts is None else [shifts], measured, known


def _fetch(found: Sequence[Surveyed], spec: Spec) -> list[Surveyed]:
    arrays = [x for one in found for x in one if x is not None]
    fetched = iter(load_engine(spec).fetch(arrays))
    return [
        Surveyed(*(None if x is None else next(fetched) for x in one)) for one in found
    ]
