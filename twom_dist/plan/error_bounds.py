"""Bounds of a product's error, and what they are relative to."""

from typing import NamedTuple

import numpy as np

from ..moduli.accuracy import componentwise_bound, error_bound, product_rounding
from ..tiles.spec import Spec


class ErrorBound(NamedTuple):
    """A bound on ``|C - C_exact|_ij`` for alpha = 1, beta = 0."""

    value: float
    relative_to: str


def show_exact(bound: ErrorBound) -> str:
    """Return the bound of an exact product as plans and explanations show it."""
    if bound.value:
        return f"{bound.value:.1e} {bound.relative_to}: exact sums, rounded once"
    return "0 for alpha = 1: integers, multiplied exactly"


def bound_error(spec: Spec, by_entries: bool) -> ErrorBound:
    """Bound the error of a product; `by_entries`: whether its moduli are the entries'.

    A diagonal adds the rounding g of ``A diag``: with a bound b of the product that is
    left, ``b (1 + g) + g`` relative to ``|A| |diag| |B|``.
    """
    system = None if spec.native else spec.system
    bound = error_bound(system, spec.k, spec.dtype, spec.words)
    if by_entries and system is not None:
        bound = componentwise_bound(spec.k, spec.unit_roundoff)
    if spec.exact:
        # Sums are exact; a result in single precision rounds them.
        double = np.finfo(spec.dtype).bits == 64
        return ErrorBound(0.0 if double else spec.unit_roundoff, "|C|_ij")
    rows = by_entries or system is None
    if not spec.diag:
        return ErrorBound(bound, "(|A| |B|)_ij" if rows else "||a_i|| ||b_j||")
    rounding = product_rounding(spec.diag)
    relative_to = "(|A| |diag| |B|)_ij" if rows else "||a_i diag|| ||b_j||"
    return ErrorBound(bound * (1 + rounding) + rounding, relative_to)
