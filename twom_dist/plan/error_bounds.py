"""Bounds of a product's error, and what they are relative to."""

from typing import NamedTuple

import numpy as np

from ..moduli.accuracy import componentwise_bound, error_bound
from ..tiles.spec import Spec
from .show import round_up

# What errors of exact products are relative to.
_EXACT = "|C|_ij"


class ErrorBound(NamedTuple):
    """A bound on ``|C - C_exact|_ij`` for alpha = 1, beta = 0."""

    value: float
    relative_to: str

    def __str__(self) -> str:
        shown = f"{round_up(self.value, 2):.1e} {self.relative_to}"
        if self.relative_to != _EXACT:
            return shown
        if self.value:
            return f"{shown}: exact sums, rounded once"
        return "0 for alpha = 1: integers, multiplied exactly"


def bound_error(spec: Spec, data_driven: bool) -> ErrorBound:
    """Bound the error of a product; `data_driven`: whether its moduli are the entries'.

    Where entries of A are rounded before, by g, and b bounds the product that is left,
    it is ``b (1 + g) + g``.
    """
    system = None if spec.native else spec.system
    bound = error_bound(system, spec.k, spec.dtype, spec.components)
    if data_driven and system is not None:
        bound = componentwise_bound(spec.k, spec.unit_roundoff)
    if spec.exact:
        # Sums are exact; a result in single precision rounds them.
        double = np.finfo(spec.dtype).bits == 64
        return ErrorBound(0.0 if double else spec.unit_roundoff, _EXACT)
    rows = data_driven or system is None
    relative_to = f"({' '.join(f'|{x}|' for x in spec.factors)})_ij"
    if not rows:
        relative_to = f"||{' '.join(['a_i', *spec.factors[1:-1]])}|| ||b_j||"
    rounding = spec.input_rounding
    return ErrorBound(bound * (1 + rounding) + rounding, relative_to)
