"""The look at matrices in memory, for engines that launch all its stages at once.

Everything that may be needed is launched together and fetched by one wait, since
waiting costs such an engine more than the stages do. Only matrices whose columns are
shifted take a second look.
"""

from collections.abc import Sequence
from typing import Any

from ...kernels.survey import Survey, Surveyed
from ...moduli import norm_bits
from ..interpreter import Found, Line
from ..rows import Row, shifts_of_both
from ..spec import Spec, load_engine
from .equilibration import choose_shifts
from .estimate import Measured, settle_in_memory


def survey_matrices(rows: Sequence[Row], spec: Spec, survey: Survey) -> Found:
    """Look at one or two whole matrices, as `program.look` does."""
    equilibrate = spec.equilibrate
    given = [row.view(0, spec) for row in rows]
    found = survey(given, norm_bits(spec.k), columns=equilibrate)
    on_host = _fetch(found, spec) if equilibrate or spec.grade else found
    shifts = None
    if equilibrate:
        columns: list[Any] = [x.column_exponents for x in on_host]
        shifts = choose_shifts(columns[0], columns[-1], spec.dtype)
    if shifts is not None:
        for row in rows:
            row.shifts = [shifts]
        both = shifts_of_both(rows, spec)
        found = survey(given, norm_bits(spec.k), columns=False, shifts=both)
        on_host = _fetch(found, spec) if spec.grade else found
    measured: dict[Line, Measured] = {
        (row.side, 0): Measured(*x[:2]) for row, x in zip(rows, found, strict=True)
    }
    if spec.grade:
        known = [Measured(*x[:2]) for x in on_host]
        spec = settle_in_memory(spec, rows, [*measured.values()], known)
    return Found(spec, None if shifts is None else [shifts], measured)


def _fetch(found: Sequence[Surveyed], spec: Spec) -> list[Surveyed]:
    arrays = [x for one in found for x in one if x is not None]
    fetched = iter(load_engine(spec).fetch(arrays))
    return [Surveyed(*(next(fetched) for x in one if x is not None)) for one in found]
