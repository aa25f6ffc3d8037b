"""Integers as sums of limbs of 32 bits, and products as sums of products of limbs.

``x = sum_i x_i 2^(32 i)`` with x_i >= 0, except for the last, which has the sign. The
products of limbs are exact sums of one or two doubles, below 2^94 in magnitude, so that
the 32-bit digits of all of them and their carries fit int64.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import PlanError
from ..typing import Array

BITS = 32
_MASK = (1 << BITS) - 1
LARGEST_SUM = 1 << 94  # the digits of such sums, and the rest above them, fit int64
LARGEST_WHOLE = 1 << 53  # integers that are not split: doubles hold them


def count_limbs(largest: int) -> int:
    """Count the limbs of integers up to a magnitude, the last one up to 2^32."""
    count = 1
    while largest_limbs(largest, count)[-1] > _MASK + 1:
        count += 1
    return count


def largest_limbs(largest: int, count: int) -> list[int]:
    """Return the largest magnitudes of the limbs of integers up to a magnitude."""
    # Rounded down, a negative integer may be one more.
    last = min((largest >> BITS * (count - 1)) + 1, largest)
    return [_MASK] * (count - 1) + [last]


def limb_dtype(dtype: Any, index: int, count: int) -> np.dtype[Any]:
    """Return the dtype of a limb of integers of a dtype."""
    found = np.dtype(dtype)
    if index < count - 1 or found.kind == "u":
        return np.dtype("u4")
    return np.dtype("i8" if found.hasobject else "i4")


def take_limb(x: Array, index: int, count: int) -> Array:
    """Take a limb of integers of 64 bits, or of Python's."""
    shift, mask = BITS * index, _MASK
    if not x.dtype.hasobject:
        shift, mask = x.dtype.type(shift), x.dtype.type(mask)
    above = x >> shift
    if index < count - 1:
        above = above & mask
    return above.astype(limb_dtype(x.dtype, index, count))


def combine_products(
    components: Sequence[Array], places: Sequence[tuple[int, int]], dtype: Any
) -> Array:
    """Add up products of limbs as int64, or as Python integers.

    `components`: one or two doubles of each product, large ones first; `places`: the
    sum of its limbs' indices, and their number. A sum that does not fit is refused.
    """
    sums: dict[int, list[Any]] = {}
    given = iter(components)
    for place, count in places:
        found = _cut([next(given) for _ in range(count)])
        before = sums.get(place)
        both = zip(found, before or found, strict=True)
        sums[place] = [x + y for x, y in both] if before else [*found]
    digits: list[Array] = []
    carry: Any = 0
    for place in sorted(sums):
        above, low = sums[place]
        low = low + carry
        digits.append(low & _MASK)
        carry = above + (low >> BITS)
    if np.dtype(dtype).hasobject:
        total = carry.astype(object)
        for digit in reversed(digits):
            total = (total << BITS) + digit.astype(object)
        return total
    return narrow(_as_fixed(digits, carry, np.dtype(dtype) == np.uint64), dtype)


def narrow(x: Array, dtype: Any) -> Array:
    """Return integers in another dtype; refuse what that cannot hold."""
    bounds = np.iinfo(dtype)
    if x.dtype == dtype:
        return x
    if x.size and (x.min() < bounds.min or x.max() > bounds.max):
        raise _refuse(dtype)
    return x.astype(dtype)


def _refuse(dtype: Any) -> PlanError:
    problem = f"an entry of the product does not fit {np.dtype(dtype).name}"
    remedy = "Give dtype=object for Python integers"
    return PlanError(problem, remedy, "integer-overflow")


def _cut(components: list[Array]) -> tuple[Array, Array]:
    """Return q and r of ``q 2^32 + r``, 0 <= r < 2^32, as int64."""
    high = np.floor(components[0] * 2.0**-BITS)
    above = high.astype(np.int64)
    low = (components[0] - high * 2.0**BITS).astype(np.int64)
    for rest in components[1:]:
        low += rest.astype(np.int64)
    return above + (low >> BITS), low & _MASK


def _as_fixed(digits: list[Array], carry: Array, unsigned: bool) -> Array:
    """Return the lowest 64 bits, if all above repeat their sign, or are zeros."""
    if len(digits) == 1:
        digits, carry = [*digits, carry & _MASK], carry >> BITS
    first, second, *above = digits
    found = (second << BITS) | first
    sign = 0 if unsigned else found >> 63
    fits = carry == sign
    for digit in above:
        fits &= digit == (sign & _MASK)
    found = found.view(np.uint64) if unsigned else found
    if not fits.all():
        raise _refuse(found.dtype)
    return found
