"""Moduli from bounds of rho: the fewest that suffice for every pair.

Usually the angles of all rows and columns show that the fewest moduli, or one more,
suffice. This one more can be saved if measured rounding errors are small enough. If
angles give no such bound, the octaves of the entries of rows bound rho; and if that
bound asks for many moduli, the largest term of each pair does.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ...errors import AccuracyError
from ...moduli import ResidueSystem, norm_bits
from ...moduli.accuracy import (
    componentwise_system,
    fewest_systems,
    longest_ratio,
    quantisation_bound,
)
from ..spec import Spec

# Rounding errors are uniform in -1/2 to 1/2 but for crafted data: the mean of their
# squares is a third of the largest. This leaves room for the worst of many rows.
_USUAL = 2.75
# Moduli beyond the second fewest that are taken before all pairs are analysed,
# which takes as long as 3 to 5 moduli at n = 512 to 2048 (Zen 5), and more on GPUs by
# prediction; it saves 2 where magnitudes spread, 6 where half of them are negligible.
_FEW = 6


def may_save(ratios: Any, first: float) -> Any:
    """Tell for which bounds of rho^2 rounding errors may allow the fewest moduli.

    `first`: the largest rho^2 that allows them without a measurement.
    """
    return (ratios > first) & (ratios <= _USUAL * first)


class Decision(NamedTuple):
    """Moduli, a bound of rho, and what it comes from."""

    system: ResidueSystem | None  # None is the native product
    rho: float
    # As of `Spec`; empty where measured rounding errors may allow this system, and the
    # next one is needed if they do not.
    decided_by: str


def decide_by_angles(spec: Spec, ratio: float) -> Decision | None:
    """Decide by a bound of rho^2 for all pairs, if that is small enough."""
    systems = fewest_of(spec)
    for system, most in systems:
        if ratio <= most:
            if may_save(ratio, systems[0][1]):
                return Decision(systems[0][0], sqrt(ratio), "")
            return Decision(system, sqrt(ratio), "sums")
    return None


def decide_by_octaves(spec: Spec, ratio: float) -> Decision | None:
    """Decide by a bound of rho^2 from octaves, if that takes few moduli.

    It may take more than needed, which cost less than the octaves of all pairs.
    """
    systems = fewest_of(spec)
    found = componentwise_system(spec.method, spec.k, ratio, spec.unit_roundoff)
    if found is None or not systems:
        return None
    fewest, most = systems[-1]
    if ratio <= most:
        found = fewest
    if found.num_moduli > fewest.num_moduli + _FEW:
        return None
    return Decision(found, sqrt(ratio), "octaves")


def decide_by_errors(spec: Spec, rho: float, largest: float) -> Decision:
    """Decide by the largest sum of squared rounding errors of any row."""
    (fewest, _), (second, _) = fewest_of(spec)
    if suffice(spec, rho, largest):
        return Decision(fewest, rho, "errors")
    return Decision(second, rho, "sums")


def fewest_of(spec: Spec) -> list[tuple[ResidueSystem, float]]:
    """Return `fewest_systems` for a spec."""
    return fewest_systems(spec.method, spec.k, spec.unit_roundoff)


def suffice(spec: Spec, rho: Any, largest: Any) -> Any:
    """Tell whether the fewest moduli suffice for rho, and sums of squared errors."""
    (fewest, _), *_ = fewest_of(spec)
    rounding = np.sqrt(largest * (1 + 2.0**-48)) * 2.0 ** -norm_bits(spec.k)
    bound = quantisation_bound(fewest, spec.k, rounding)
    return rho * bound <= sqrt(spec.k) * spec.unit_roundoff * (1 - 2.0**-40)


def decide_by_pairs(spec: Spec, rho: float, ratio: float) -> Decision:
    """Decide by the smaller of both bounds: of rho by octaves, of rho^2 by pairs.

    0 without any pair. The native product stands in where no residue system suffices.
    """
    systems, roundoff = fewest_of(spec), spec.unit_roundoff
    ratio = min(ratio, rho * rho)
    system = componentwise_system(spec.method, spec.k, ratio, roundoff)
    if systems and ratio <= systems[-1][1]:
        system, ratio = systems[-1]
    if system is not None:
        return Decision(system, sqrt(ratio), "pairs")
    if spec.components == 2:
        problem = "the data need more moduli than there are"
        remedy = "Give num_moduli or accuracy='normwise'"
        raise AccuracyError(problem, remedy, "accuracy-out-of-reach")
    # The search ends at the first pair beyond all moduli, whichever that is.
    least = longest_ratio(spec.method, spec.k, roundoff)
    return Decision(None, sqrt(least), "beyond")
