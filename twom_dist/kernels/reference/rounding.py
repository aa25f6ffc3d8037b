"""Numbers times powers of two, exactly or rounded once."""

import numpy as np

from ...moduli import NONFINITE_ROW
from ...typing import Array


def shift_columns(x: Array, shifts: Array | None) -> Array:
    """Multiply column l by 2^shifts[l] into a new array; x itself without shifts."""
    if shifts is None:
        return x
    out = np.empty(x.shape, x.dtype.newbyteorder("="))
    factors = np.ldexp(out.real.dtype.type(1), shifts)
    # Rows with a NaN or an Inf, here or in another tile, may leave the numbers.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        np.multiply(x.real, factors, out=out.real)
        if np.iscomplexobj(x):
            np.multiply(x.imag, factors, out=out.imag)
    return out


def _as_quotient(x: float, shift: int) -> tuple[int, int]:
    """|x| 2^shift as a quotient: of Fractions, each would seek a common divisor."""
    above, below = abs(float(x)).as_integer_ratio()
    return above << max(0, int(shift)), below << max(0, -int(shift))


def quantise(x: float, exponent: int) -> int:
    """rint(x 2^exponent), ties to even."""
    if exponent >= NONFINITE_ROW:
        return 0
    above, below = _as_quotient(x, exponent)
    whole, rest = divmod(above, below)
    whole += 2 * rest > below or (2 * rest == below and whole % 2)
    return -whole if x < 0 else whole


def ceil_scaled(x: float, shift: int) -> int:
    """ceil(|x| 2^shift)."""
    above, below = _as_quotient(x, shift)
    return -(-above // below)
