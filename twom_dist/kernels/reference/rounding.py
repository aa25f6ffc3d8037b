"""Numbers times powers of two, rounded exactly."""

from ...moduli import NONFINITE_ROW


def _scaled(x: float, shift: int) -> tuple[int, int]:
    """|x| 2^shift as a quotient: of Fractions, each would seek a common divisor."""
    above, below = abs(float(x)).as_integer_ratio()
    return above << max(0, int(shift)), below << max(0, -int(shift))


def quantise(x: float, exponent: int) -> int:
    """rint(x 2^exponent), ties to even."""
    if exponent == NONFINITE_ROW:
        return 0
    above, below = _scaled(x, exponent)
    whole, rest = divmod(above, below)
    whole += 2 * rest > below or (2 * rest == below and whole % 2)
    return -whole if x < 0 else whole


def ceil_scaled(x: float, shift: int) -> int:
    """ceil(|x| 2^shift)."""
    above, below = _scaled(x, shift)
    return -(-above // below)
