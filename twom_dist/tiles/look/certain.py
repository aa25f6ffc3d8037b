"""Moduli of the matrices of a stack, found for all at once where they are certain.

A matrix of a stack takes the moduli that it takes alone. The angles of its rows settle
most, some with their rounding errors, and octaves others; those whose pairs have to be
looked at are computed alone.
"""

from collections.abc import Sequence

import numpy as np

from ...kernels.family import namespace
from ...kernels.survey import Surveyed
from ...moduli import ResidueSystem, norm_bits, scaling_rule
from ...moduli.accuracy import fewest_systems
from ...typing import Array
from ..spec import SIDES, Spec, as_rows, load_engine
from .angles import bound_ratios
from .equilibration import may_gain
from .measured import Measured
from .ratios import bound_by_octaves
from .settle import decide_by_octaves, may_save, suffice


def certain_systems(
    a: Array, b: Array, measured: Sequence[Measured], spec: Spec
) -> list[ResidueSystem | None]:
    """Return the residue system of each matrix, or None where it is uncertain.

    Parameters
    ----------
    a, b : (count, rows, columns)
        Stacks; b is a where the spec says twins.
    measured : sequence of Measured
        Of (count, rows): of op(A), and of op(B)^T unless that is the same; of columns,
        too, if the spec asks for equilibration.
    spec : Spec
        Whose moduli the entries choose.
    """
    rows = [
        as_rows(x, side, spec.op(side))
        for x, side, _ in zip((a, b), SIDES, measured, strict=False)
    ]
    systems = fewest_systems(spec.method, spec.k, spec.unit_roundoff)
    found: list[ResidueSystem | None] = [None] * len(a)
    if not systems:
        return found
    given = [Surveyed(*x[:4]) for x in measured]
    cosines, columns = load_engine(spec).summarise(given, spec.k)
    smallest = cosines[0], cosines[-1]
    ratios, fixed = bound_ratios(*smallest), np.ones(len(a), bool)
    if columns is not None:
        fixed = ~may_gain(columns, spec.k)
    for system, most in reversed(systems):
        for place in np.flatnonzero(fixed & (ratios <= most)).tolist():
            found[place] = system
    asked = np.flatnonzero(fixed & may_save(ratios, spec))
    if len(asked):
        errors = _largest_errors(rows, measured, asked, systems[0][0], spec)
        saved = suffice(spec, np.sqrt(ratios[asked]), errors)
        for place in asked[saved].tolist():
            found[place] = systems[0][0]
    left = np.flatnonzero(fixed & (ratios > systems[-1][1]))
    if len(left):
        both = zip(rows, measured, strict=False)
        ends = [_count_octaves(*x, left, spec) for x in both]
        bounds = bound_by_octaves(ends[:1], ends[-1:], spec.k)
        for place, ratio in zip(left.tolist(), bounds.tolist(), strict=True):
            decision = decide_by_octaves(spec, ratio)
            found[place] = decision and decision.system
    return found


def _count_octaves(x: Array, measured: Measured, places: Array, spec: Spec) -> Measured:
    """Count the octaves of the rows of some matrices, and bring them to the host."""
    engine = load_engine(spec)
    if len(places) < len(x):
        which = namespace(x).asarray(places)
        x, measured = x[which], measured.take(which)
    counts = engine.count_octaves(engine.octaves(x, measured.largest))
    return measured._replace(octaves=counts).on_host()


def _largest_errors(
    rows: Sequence[Array],
    measured: Sequence[Measured],
    places: Array,
    system: ResidueSystem,
    spec: Spec,
) -> Array:
    """Return the largest sum of squared rounding errors of a row of some matrices."""
    engine, rule = load_engine(spec), scaling_rule(system, spec.k)
    assert rule is not None
    exponents = [engine.choose_exponents(x.largest, x.squares, rule) for x in measured]
    largest = engine.largest_errors(rows, exponents, norm_bits(spec.k), places)
    return largest.astype(np.float64)
