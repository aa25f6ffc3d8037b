"""Matrices in memory before they are multiplied: equilibrated, and measured.

Stage by stage, or by the engine's survey: then all that may be needed is launched at
once, and fetched by one wait. Only matrices that were scaled are looked at again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ...kernels.survey import Survey, Surveyed
from ...moduli import norm_bits
from ...typing import Array
from .. import tasks
from ..spec import SIDES, Spec, as_rows, load_engine
from .equilibration import choose_shifts, column_exponents, scale_tile
from .estimate import Known, Measured


class Looked(NamedTuple):
    """Matrices as they are stored, equilibrated, and what is known of their rows."""

    a: Array
    b: Array
    left: Known
    right: Known


def look(a: Array, b: Array, spec: Spec) -> Looked:
    """Measure rows; before, equilibrate where the spec wants it and it pays."""
    survey = load_engine(spec).survey
    return _by_stages(a, b, spec) if survey is None else _at_once(a, b, spec, survey)


def _by_stages(a: Array, b: Array, spec: Spec) -> Looked:
    sides = tuple(zip((a, b), SIDES[:1] if spec.twins else SIDES, strict=False))
    largest = [tasks.largest_exponents(x, side, spec) for x, side in sides]
    if spec.equilibrate:
        columns = [
            column_exponents(x, e, side, spec)
            for (x, side), e in zip(sides, largest, strict=True)
        ]
        shifts = choose_shifts(columns[0], columns[-1], spec.dtype)
        if shifts is not None:
            return _look_at_scaled(a, b, shifts, spec)
    known = []
    for (x, side), e in zip(sides, largest, strict=True):
        measured = Measured(e, tasks.square_sums(x, e, side, spec))
        known.append(Known(as_rows(x, side, spec.op(side)), measured, measured))
    return Looked(a, b, known[0], known[-1])


def _at_once(a: Array, b: Array, spec: Spec, survey: Survey) -> Looked:
    rows = [
        as_rows(x, side, spec.op(side))
        for x, side in zip((a, b), SIDES[:1] if spec.twins else SIDES, strict=False)
    ]
    found = survey(rows, norm_bits(spec.k), columns=spec.equilibrate)
    on_host = found
    if spec.equilibrate or spec.grade:
        on_host = _fetch(found, spec)
    if spec.equilibrate:
        columns = [x.column_exponents for x in on_host]
        shifts = choose_shifts(columns[0], columns[-1], spec.dtype)
        if shifts is not None:
            return _look_at_scaled(a, b, shifts, spec)
    known = [
        Known(x, Measured(*here[:2]), Measured(*there[:2]))
        for x, here, there in zip(rows, found, on_host, strict=True)
    ]
    return Looked(a, b, known[0], known[-1])


def _fetch(found: Sequence[Surveyed], spec: Spec) -> list[Surveyed]:
    arrays = [x for one in found for x in one if x is not None]
    fetched = iter(load_engine(spec).fetch(arrays))
    return [Surveyed(*(next(fetched) for x in one if x is not None)) for one in found]


def _look_at_scaled(a: Array, b: Array, shifts: Array, spec: Spec) -> Looked:
    left, right = (
        scale_tile(x, shifts, side, spec) for x, side in zip((a, b), SIDES, strict=True)
    )
    return look(left, right, replace(spec, equilibrate=False))
