"""Sets of pairwise coprime moduli that fit int8, each given by its rule."""

from collections.abc import Callable, Iterable
from functools import cache
from math import gcd, log2

from .crt import root_of_minus_one

LARGEST_MODULUS = 256  # residues must fit int8: 256 gives [-128, 127]
# A 2M modulus pays log2(p)/2 bits per int8 product, a 3M modulus at most 8/3;
# the smallest 2M modulus above that break-even is 41.
SMALLEST_PAYING_2M = 41


def _greedy(
    qualifies: Callable[[int], bool], smallest: int, kept: Iterable[int] = ()
) -> tuple[int, ...]:
    """Scan from 256 down; keep moduli that qualify and are coprime to all kept ones."""
    taken, chosen = list(kept), []
    for p in range(LARGEST_MODULUS, smallest - 1, -1):
        if qualifies(p) and all(gcd(p, q) == 1 for q in taken):
            taken.append(p)
            chosen.append(p)
    return tuple(chosen)


@cache
def two_m_moduli() -> tuple[int, ...]:
    """List the 2M moduli: odd, with a square root of -1 (22 from 241 to 29).

    Smaller ones (17, 13, 5 divide 221, 169, …) are never coprime to those kept.
    """
    return _greedy(lambda p: p % 2 == 1 and root_of_minus_one(p) is not None, 2)


@cache
def real_moduli() -> tuple[int, ...]:
    """List the moduli of real and 3M products: any coprime p (49 from 256)."""
    return _greedy(lambda p: True, 2)


@cache
def hybrid_moduli() -> tuple[tuple[int, str], ...]:
    """List (modulus, kind): the 20 paying 2M moduli, then 3M moduli coprime to them."""
    two = tuple(p for p in two_m_moduli() if p >= SMALLEST_PAYING_2M)
    three = _greedy(lambda p: True, 2, kept=two)
    return tuple((p, "2m") for p in two) + tuple((p, "3m") for p in three)


def log2_product(moduli: Iterable[int]) -> float:
    """Sum log2 of the moduli: the bits that a product of residues can carry."""
    return sum(log2(p) for p in moduli)
