"""Chinese remaindering: exact weights, and their balanced digits."""

from collections.abc import Sequence
from functools import cache
from math import prod


def symmetric_residue(x: int, p: int) -> int:
    """Reduce x modulo p into [-(p//2), (p-1)//2].

    Examples
    --------
    >>> symmetric_residue(128, 256), symmetric_residue(7, 13), symmetric_residue(6, 13)
    (-128, -6, 6)
    """
    return (x + p // 2) % p - p // 2


@cache
def crt_weights(moduli: tuple[int, ...]) -> tuple[int, ...]:
    """Weights W with x = sum(W_l * (x mod p_l)) mod M, in the symmetric range.

    Parameters
    ----------
    moduli : tuple of int
        Pairwise coprime.

    Returns
    -------
    tuple of int
        ``W_l = (M/p_l) ((M/p_l)^-1 mod p_l)`` reduced to [-(M//2), (M-1)//2].
    """
    product = prod(moduli)
    return tuple(
        symmetric_residue(product // p * pow(product // p, -1, p), product)
        for p in moduli
    )


def balanced_digits(x: int, digit_bits: int, count: int) -> tuple[int, ...]:
    """Split x into `count` digits in [-2^(b-1), 2^(b-1)], least significant first.

    ``sum(d << (t * b) for t, d in enumerate(digits)) == x``; the last digit takes
    what is left.
    """
    digits = []
    for _ in range(count - 1):
        d = symmetric_residue(x, 1 << digit_bits)
        digits.append(d)
        x = (x - d) >> digit_bits
    return (*digits, x)


def reconstruct(residues: Sequence[int], moduli: tuple[int, ...]) -> int:
    """Find the x in the symmetric range of the moduli that has these residues.

    Examples
    --------
    >>> reconstruct([-5 % 241, -5 % 233], (241, 233))
    -5
    """
    total = sum(w * r for w, r in zip(crt_weights(moduli), residues, strict=True))
    return symmetric_residue(total, prod(moduli))
