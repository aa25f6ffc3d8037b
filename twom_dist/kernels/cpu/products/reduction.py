"""Reduction modulo p: of a sum in int64, and of a small sum by VNNI.

With VNNI a sum T of bytes times weights starts from the bits of a float32 of 2^23 or
more, so the bits of the result are a float32 too. The quotient T / p is rounded by one
fused multiply-add with (1 + e) / p. For odd p that is right as long as |T e| < 1/2,
since T / p is 1 / (2 p) or more away from a tie; for p = 256 it is exact, and a tie
gives +-128, whose low bytes are equal. Where |T e| is more, T is made one further from
the residue.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ....moduli import symmetric_residue
from ....typing import Array
from ..jit import inner

# |v - p rint(v / p)| with rint from the multiplier m = rint(2^40 / p): the quotient is
# off by |v| 2^-41 <= 2^-10, and v/p is at least 1/(2p) > 2^-9 away from a tie for odd
# p; for p = 256, m is exact. A tie gives +128, whose low byte is -128.
_SHIFT = 40


def multiplier(p: int) -> int:
    """Return rint(2^40 / p)."""
    return ((1 << _SHIFT + 1) // p + 1) >> 1


@inner
def reduce_sum(v, p, m):
    """Return v modulo p, symmetric; |v| < 2^31; m: the multiplier of p."""
    return np.int8(v - ((v * m + (1 << (_SHIFT - 1))) >> _SHIFT) * p)


_FIRST, _HALF = 1 << 23, Fraction(1, 2)
# Its bits are those of T, and the highest byte of the bits of a quotient.
_BITS, _HIGHEST = 0x4B000000, 0x4B
_INVERSE = pow(_HIGHEST, -1, 256)


def reduction_entry(
    p: int, constant: int, weights: Sequence[int]
) -> tuple[int, int, float]:
    """Return what a sum begins with, what the bytes of the quotient weigh, and 1 / p.

    The sum is `constant`, modulo p, plus bytes from 0 to 255 times `weights`. The bytes
    of the quotient, of which the lowest and the highest count, take the rest to the
    residue, modulo 256.
    """
    least, most = (255 * sum(pick(w, 0) for w in weights) for pick in (min, max))
    inverse = float(np.float32(1 / p))
    error, first, offset = Fraction(inverse) * p - 1, _FIRST, 0
    if abs(error) * (first + most - least + p) >= _HALF:
        offset = -1 if error > 0 else 1
        first = max(first, int(_HALF / abs(error)) + 1)
    start = first - least + (constant + offset - first + least) % p
    for total in (first, start + most):
        assert abs(offset + total * error) < _HALF
        assert total < 2 * _FIRST
    rest = -p & 255 | (-offset * _INVERSE & 255) << 24
    return (
        _BITS - _FIRST + start,
        int(np.array(rest, np.uint32).view(np.int32)),
        inverse,
    )


def reduction_table(moduli: Sequence[int]) -> Array:
    """Tabulate what the sums of products modulo p are reduced by, 16 bytes each.

    They are {weights, start, weights of the quotient, 1 / p}. The bytes of a sum, which
    is 2^31 too large, weigh 2^(8 i) modulo p, and `start` takes the bias back.
    """
    table = np.zeros(len(moduli), "4i1, i4, i4, f4")
    for row, p in enumerate(moduli):
        weights = [symmetric_residue(1 << 8 * t, p) for t in range(4)]
        table[row] = weights, *reduction_entry(p, -(1 << 31), weights)
    return table.view(np.int32).reshape(-1, 4)
