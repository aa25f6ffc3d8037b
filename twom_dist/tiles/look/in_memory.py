"""The look at matrices in memory, by engines that have all stages at once.

Everything that may be needed is found together and fetched by one wait, since waiting
costs a device more than the stages do. There a few numbers mostly decide. Only matrices
whose columns may be shifted, or whose pairs stay open, take a second look.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...kernels.survey import Surveyed, Weighed
from ...moduli import norm_bits, scaling_rule
from ..interpreter import Line
from ..rows import Row, shifts_of_both
from ..spec import Spec, load_engine
from .angles import bound_ratio
from .equilibration import choose_shifts, may_gain
from .every_pair import magnitude_bits
from .measured import Measured
from .settle import (
    Decision,
    decide_by_angles,
    decide_by_errors,
    decide_by_ratio,
    fewest_of,
)


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


def decide(weighed: Weighed, spec: Spec) -> Decision | None:
    """Decide about the moduli, where the numbers suffice."""
    found = decide_by_angles(spec, bound_ratio(*weighed.cosines))
    if found is None:
        systems, ratio = fewest_of(spec), None
        if systems:
            ratio = weighed.largest_ratio(systems[-1][1], magnitude_bits(spec.k))
        return None if ratio is None else decide_by_ratio(spec, ratio)
    if found.closed_by:
        return found
    return decide_by_errors(spec, found.rho, weighed.largest_error())


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
    return None if shifts is None else [shifts], measured, known


def _fetch(found: Sequence[Surveyed], spec: Spec) -> list[Surveyed]:
    arrays = [x for one in found for x in one if x is not None]
    fetched = iter(load_engine(spec).fetch(arrays))
    return [
        Surveyed(*(None if x is None else next(fetched) for x in one)) for one in found
    ]
