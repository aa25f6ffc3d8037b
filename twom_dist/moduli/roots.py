"""Square roots of -1 modulo p, the constant s of the 2M algorithm."""

from functools import cache


@cache
def root_of_minus_one(p: int) -> int | None:
    """Find the smallest s with s*s = -1 (mod p), or None.

    It exists for odd p exactly when every prime factor of p is 1 modulo 4.

    Examples
    --------
    >>> root_of_minus_one(241), root_of_minus_one(239)
    (64, None)
    """
    return next((s for s in range(1, p) if (s * s + 1) % p == 0), None)


@cache
def root_of_unity_cube(p: int) -> int | None:
    """Find the smallest w with w*w + w + 1 = 0 (mod p), or None.

    Examples
    --------
    >>> root_of_unity_cube(7), root_of_unity_cube(5)
    (2, None)
    """
    return next((w for w in range(1, p) if (w * w + w + 1) % p == 0), None)
