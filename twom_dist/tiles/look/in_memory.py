"""The look at matrices in memory, for engines that launch all its stages at once.

Everything that may be needed is launched together and fetched by one wait, since
waiting costs such an engine more than the stages do. Only matrices whose columns are
shifted take a second look, and only those whose pairs stay open their magnitudes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ...kernels.survey import Survey, Surveyed
from ...moduli import norm_bits
from ..interpreter import Line
from ..rows import Row, shifts_of_both
from ..spec import Spec, load_engine
from .equilibration import choose_shifts
from .measured import Measured


def survey_matrices(
    rows: Sequence[Row],
    spec: Spec,
    survey: Survey,
    meanwhile: Callable[[], object] | None = None,
) -> tuple[Any, dict[Line, Measured], dict[Line, Measured]]:
    """Look at one or two whole matrices, up to the sums of their rows.

    Returns the shifts, what has been measured, and the same on the host where that
    decides about anything. `meanwhile`: called before the first wait.
    """
    equilibrate = spec.equilibrate
    given = [row.view(0, spec) for row in rows]
    bits, totals = norm_bits(spec.k), spec.by_entries
    found = survey(given, bits, totals=totals, columns=equilibrate)
    on_host = _fetch(found, spec, meanwhile) if spec.looks else found
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
    lines: list[Line] = [(row.side, 0) for row in rows]
    measured, known = (
        {line: Measured(*x[:3]) for line, x in zip(lines, each, strict=True)}
        for each in (found, on_host)
    )
    return None if shifts is None else [shifts], measured, known


def _fetch(
    found: Sequence[Surveyed],
    spec: Spec,
    meanwhile: Callable[[], object] | None = None,
) -> list[Surveyed]:
    arrays = [x for one in found for x in one if x is not None]
    fetched = iter(load_engine(spec).fetch(arrays, meanwhile))
    return [
        Surveyed(*(None if x is None else next(fetched) for x in one)) for one in found
    ]
