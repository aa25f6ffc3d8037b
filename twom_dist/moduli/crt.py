"""Integers modulo p: residues, roots of 1, and weights of Chinese remaindering."""

from functools import cache
from math import prod


def symmetric_residue(x: int, p: int) -> int:
    """Reduce x modulo p into [-(p//2), (p-1)//2].

    >>> symmetric_residue(128, 256), symmetric_residue(7, 13), symmetric_residue(6, 13)
    (-128, -6, 6)
    """
    return (x + p // 2) % p - p // 2


@cache
def root_of_minus_one(p: int) -> int | None:
    """Find the smallest s with s*s = -1 (mod p), or None.

    It exists for odd p exactly when every prime factor of p is 1 modulo 4.

    >>> root_of_minus_one(241), root_of_minus_one(239)
    (64, None)
    """
    return next((s for s in range(1, p) if (s * s + 1) % p == 0), None)


@cache
def crt_weights(moduli: tuple[int, ...]) -> tuple[int, ...]:
    """Weights W with x = sum(W_l * (x mod p_l)) mod M, in the symmetric range.

    ``W_l = (M/p_l) ((M/p_l)^-1 mod p_l)``; the moduli are pairwise coprime.
    """
    product = prod(moduli)
    return tuple(
        symmetric_residue(product // p * pow(product // p, -1, p), product)
        for p in moduli
    )


def balanced_digits(x: int, digit_bits: int, count: int) -> tuple[int, ...]:
    """Split x into `count` digits in [-2^(b-1), 2^(b-1)], least significant first.

    ``sum(d << (t * b) for t, d in enumerate(digits)) == x``; the last takes the rest.
    """
    digits = []
    for _ in range(count - 1):
        d = symmetric_residue(x, 1 << digit_bits)
        digits.append(d)
        x = (x - d) >> digit_bits
    return (*digits, x)
