"""Dot products of rows in single precision, eight at a time."""

import numpy as np

from ..compiled import inner

# For sums of positive numbers, whose bounds allow any order, and of integers below
# 2^24, which are exact in all.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


@inner(fastmath=_ANY_ORDER)
def multiply_rows(a, b, c, d, p, q):  # type: ignore[no-untyped-def]
    """Multiply four rows by p, and then by q."""
    s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = np.float32(0)
    for t in range(p.size):
        s0 += a[t] * p[t]
        s1 += b[t] * p[t]
        s2 += c[t] * p[t]
        s3 += d[t] * p[t]
        t0 += a[t] * q[t]
        t1 += b[t] * q[t]
        t2 += c[t] * q[t]
        t3 += d[t] * q[t]
    return s0, s1, s2, s3, t0, t1, t2, t3
