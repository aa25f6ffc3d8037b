"""Bounds for all pairs of rows and columns from one sum of each.

For non-negative x let t(x) be its angle to the vector of ones,
``cos t(x) = sum(x) / (||x|| sqrt(k))``. The angle between x and y is at most the sum of
both, so

    (|A| |B|)_ij >= ||a_i|| ||b_j|| cos(t(a_i) + t(b_j))        if that is above 0,

and rho is at most one over the smallest of these cosines: that of the two largest
angles. Sums of magnitudes are exact and rounded down, those of squares rounded up; what
follows is IEEE operations, each rounded by itself, and margins above their errors. So
all engines and tilings find the same bounds, and these hold.
"""

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

import numpy as np

from ...kernels.statistics import MARGIN
from ...typing import Array


def add_angles(left: Any, right: Any, root: Callable[[Any], Any] = np.sqrt) -> Any:
    """Bound ``cos(t + t')`` from below: it grows with both cosines."""
    x = root((1 - left) * (1 + left)) * (1 + MARGIN)  # each sine from above
    y = root((1 - right) * (1 + right)) * (1 + MARGIN)
    return left * right - x * y - MARGIN


def bound_ratios(left: Any, right: Any) -> Array:
    """Bound rho^2 of pairs from above, by cosines of both sides; inf beyond pi/2."""
    cosines = add_angles(np.asarray(left), np.asarray(right))
    squares = np.square(np.maximum(cosines, 0.0))
    found = np.full(squares.shape, np.inf)
    np.divide(1 + MARGIN, squares, out=found, where=squares > 0)
    return found


def bound_ratio(left: float, right: float) -> float:
    """Bound rho^2 of one pair, as `bound_ratios` does."""
    cosine: float = add_angles(left, right, sqrt)
    return (1 + MARGIN) / (cosine * cosine) if cosine > 0 else inf
