"""Moduli of the matrices of a stack, found for all at once where they are certain.

A matrix of a stack takes the moduli that it takes alone. The angles of its rows settle
most, some with their rounding errors, and octaves others; those whose pairs have to be
looked at are computed alone.
"""

import numpy as np

from ...kernels.analysis import Analysis
from ...moduli import ResidueSystem
from ..spec import Spec
from .angles import bound_ratios
from .decisions import decide_by_octaves, fewest_of, may_save, suffice
from .equilibration import may_gain
from .ratios import bound_by_octaves


def certain_systems(analysis: Analysis, spec: Spec) -> list[ResidueSystem | None]:
    """Return the residue system of each matrix, or None where it is uncertain.

    `spec`: whose moduli the entries choose.
    """
    systems, cosines = fewest_of(spec), analysis.cosines
    found: list[ResidueSystem | None] = [None] * cosines.shape[1]
    if not systems:
        return found
    ratios, fixed = bound_ratios(cosines[0], cosines[-1]), np.ones(len(found), bool)
    if analysis.columns is not None:
        fixed = ~may_gain(analysis.columns, spec.k)
    for system, most in reversed(systems):
        for place in np.flatnonzero(fixed & (ratios <= most)).tolist():
            found[place] = system
    asked = np.flatnonzero(fixed & may_save(ratios, *systems[0]))
    if len(asked):
        errors = analysis.largest_errors(asked).astype(np.float64)
        saved = suffice(spec, np.sqrt(ratios[asked]), errors)
        for place in asked[saved].tolist():
            found[place] = systems[0][0]
    left = np.flatnonzero(fixed & (ratios > systems[-1][1]))
    if len(left):
        sides = analysis.count_octaves(left)
        bounds = bound_by_octaves(sides[:1], sides[-1:], spec.k)
        for place, ratio in zip(left.tolist(), bounds.tolist(), strict=True):
            decision = decide_by_octaves(spec, ratio)
            found[place] = decision and decision.system
    return found
