"""The rule that turns a row's norm into its scaling exponent, in exact integers.

With ||a|| the 2-norm over the whole k, R^2 the capacity of the residue system and h =
sqrt(parts * k) / 2 the largest norm of the rounding errors, the exponent is the largest
s with ``||a|| 2^s + h <= R``. Then ``|c'_ij| <= ||a'_i|| ||b'_j|| <= R^2``
(Cauchy-Schwarz), whatever the data. Only integers are used, so that every engine and
every tiling finds the same s.
"""

from dataclasses import dataclass
from functools import cache
from math import isqrt

from .system import ResidueSystem, residue_system

# Exponents of a row without a nonzero entry, of one with an Inf, and of one with a NaN:
# they sort below and above every true exponent, so that a maximum over tiles is right.
# A row from NONFINITE_ROW on is not finite. The bytes of the first are equal, so that a
# device can fill memory with it.
ZERO_ROW = -0x3F3F3F40
NONFINITE_ROW = 1 << 30
NAN_ROW = NONFINITE_ROW + 1

_FRACTION_BITS = 32


# Compared by identity, since `scaling_rule` makes each rule once.
@dataclass(frozen=True, eq=False)
class ScalingRule:
    """Largest u with ``S 4^u <= T^2``, T = R - h, for a square sum S."""

    k: int  # length of the rows, all tiles together
    norm_bits: int  # bits of the magnitudes whose squares are summed: S < 2^63
    power: int  # T^2 rounded down to leading * 4^(power - 31), leading in [4^31, 4^32)
    leading: int

    def exponent(self, largest_exponent: int, square_sum: int) -> int:
        """Return s of a row with |x| < 2^largest_exponent, sum(ceil(|x|...)^2) = S."""
        if largest_exponent >= NONFINITE_ROW:
            return largest_exponent
        if largest_exponent == ZERO_ROW:
            return 0
        a = (square_sum.bit_length() - 1) // 2
        fits = square_sum << 2 * (31 - a) <= self.leading
        u = self.power - a - (0 if fits else 1)
        return u + self.norm_bits - largest_exponent


def norm_bits(k: int) -> int:
    """Bits of a magnitude such that 2k squares sum to below 2^63; 20 for k < 2^22."""
    return min(20, (63 - (2 * k).bit_length()) // 2)


@cache
def scaling_rule(system: ResidueSystem, k: int) -> ScalingRule | None:
    """Build the rule for rows of length k, or None if no exponent is valid."""
    radius = isqrt(system.capacity << 2 * _FRACTION_BITS)
    rounding = isqrt(system.parts * k << 2 * _FRACTION_BITS - 2) + 1
    if radius <= rounding:
        return None
    square = (radius - rounding) ** 2
    power = (square.bit_length() - 1) // 2
    shift = 2 * (31 - power)
    leading = square << shift if shift >= 0 else square >> -shift
    return ScalingRule(k, norm_bits(k), power - _FRACTION_BITS, leading)


def smallest_num_moduli(method: str, k: int, limit: int) -> int | None:
    """Find the least number of moduli with a valid exponent for rows of length k."""
    return next(
        (n for n in range(1, limit + 1) if scaling_rule(residue_system(method, n), k)),
        None,
    )
