"""The analysis of matrices in memory by the engine, and what it decides.

The numbers that usually decide are found together and fetched with one wait, because a
wait takes a device longer than the stages. Only matrices whose columns are shifted, or
whose pairs stay open, need a second wait. A matrix of a stack takes the same moduli as
alone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from ...kernels.analysis import Analysis
from ...kernels.family import convert
from ...moduli import ResidueSystem, norm_bits, scaling_rule
from ...typing import Array
from ..spec import Spec, load_engine
from . import decisions
from .angles import bound_ratio, bound_ratios
from .equilibration import choose_shifts, may_gain
from .ratios import LargestTerms, bound_by_octaves

_ROWS = 4096  # rows whose products of octaves with all others are held at once
_ONE = np.zeros(1, np.intp)  # the only matrix of an analysis


def plan_analysis(spec: Spec) -> Callable[..., Analysis]:
    """Return what analyses op(A), and op(B)^T unless that is the same.

    Of one or two whole matrices or stacks; with what else `Engine.analyse` takes.
    """
    rule, systems = None, decisions.fewest_of(spec) if spec.data_driven else []
    if systems:
        # That of the fewest moduli, which rounding errors may allow.
        rule = scaling_rule(systems[0][0], spec.k)
    given: Any = {"norm_bits": norm_bits(spec.k), "columns": spec.equilibrate}
    return partial(load_engine(spec).analyse, **given, rule=rule)


def find_shifts(analysis: Analysis, spec: Spec) -> Array | None:
    """Choose the shifts along k, if they gain anything."""
    columns = [convert(x.columns, "numpy") for x in analysis.statistics()]
    return choose_shifts(columns[0], columns[-1], spec.dtype)


def decide(
    operands: Sequence[Array],
    analysis: Analysis,
    spec: Spec,
    shifts: Sequence[Array] | None = None,
) -> decisions.Decision:
    """Decide about the moduli: by the few numbers, or by what they leave open."""
    cosines = analysis.cosines[:, 0].tolist()
    found = decisions.decide_by_angles(spec, bound_ratio(cosines[0], cosines[-1]))
    if found is not None:
        if found.decided_by:
            return found
        (largest,) = analysis.largest_errors(_ONE)
        return decisions.decide_by_errors(spec, found.rho, float(largest))
    sides = analysis.count_octaves(_ONE)
    ratio = float(bound_by_octaves(sides[:1], sides[-1:], spec.k)[0])
    decision = decisions.decide_by_octaves(spec, ratio)
    if decision is not None:
        return decision
    engine, every = load_engine(spec), analysis.statistics()
    each = zip(operands, every, shifts or [None] * len(every), strict=True)
    octaves = [engine.octaves(x, own.largest, e) for x, own, e in each]
    x, y, left, right = octaves[0], octaves[-1], sides[0], sides[-1]
    terms = LargestTerms(spec.k)
    for lo in range(0, len(x), _ROWS):
        own = slice(lo, lo + _ROWS)
        terms.multiply(engine, [(x[own], y)], left.take(own), right)
    return decisions.decide_by_pairs(spec, sqrt(ratio), terms.ratio)


def certain_systems(analysis: Analysis, spec: Spec) -> list[ResidueSystem | None]:
    """Return the system of each matrix of a stack; None where its pairs stay open."""
    systems, cosines = decisions.fewest_of(spec), analysis.cosines
    found: list[ResidueSystem | None] = [None] * cosines.shape[1]
    if not systems:
        return found
    ratios, fixed = bound_ratios(cosines[0], cosines[-1]), np.ones(len(found), bool)
    if analysis.columns is not None:
        fixed = ~may_gain(analysis.columns, spec.k)
    for system, most in reversed(systems):
        for place in np.flatnonzero(fixed & (ratios <= most)).tolist():
            found[place] = system
    asked = np.flatnonzero(fixed & decisions.may_save(ratios, systems[0][1]))
    if len(asked):
        errors = analysis.largest_errors(asked).astype(np.float64)
        saved = decisions.suffice(spec, np.sqrt(ratios[asked]), errors)
        for place in asked[saved].tolist():
            found[place] = systems[0][0]
    left = np.flatnonzero(fixed & (ratios > systems[-1][1]))
    if len(left):
        sides = analysis.count_octaves(left)
        bounds = bound_by_octaves(sides[:1], sides[-1:], spec.k)
        for place, ratio in zip(left.tolist(), bounds.tolist(), strict=True):
            decision = decisions.decide_by_octaves(spec, ratio)
            found[place] = decision and decision.system
    return found
