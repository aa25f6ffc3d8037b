"""Digits of the reconstruction, by pieces of a row: steps 1 to 3 of `Engine.decode`.

Scratch arrays end in the entries of a piece and are indexed, never cut: the count of
references to an array that a view changes took longer than the loops. Where `contract`
is allowed, every result is exact, fused or not.
"""

import numpy as np
from numba import njit

# Entries decoded together: their scratch arrays fit the first cache.
PIECE = 256
# Moduli whose combined residues are added up before the sums are stored again.
GROUP = 8

# How the residues of a modulus are combined.
FORMS = ("real", "2m", "3m", "4m")
_REAL, _TWO_M, _THREE_M, _FOUR_M = range(4)
# Products of a modulus of each form.
_PRODUCTS = (1, 2, 3, 4)


@njit(nogil=True, cache=True)
def make_scratch(rows):  # type: ignore[no-untyped-def]
    """Make rows of pieces of zeros, aligned to lines of the cache."""
    buffer = np.zeros(rows * PIECE + 7)
    start = -(buffer.ctypes.data // 8) % 8
    return buffer[start : start + rows * PIECE].reshape(rows, PIECE)


@njit(nogil=True, cache=True)
def _combine(r, q, form, i, start, count, small, g):  # type: ignore[no-untyped-def]
    """Combine the residues of products q, ... into small[part, g, piece]."""
    # An index that might be negative, and count from the end, is not vectorised.
    first = np.uint64(start)
    if form == _REAL:
        for c in range(count):
            small[0, g, c] = np.float64(r[q, i, first + np.uint64(c)])
    elif form == _TWO_M:
        for c in range(count):
            k = first + np.uint64(c)
            x, y = np.int64(r[q, i, k]), np.int64(r[q + 1, i, k])
            small[0, g, c] = np.float64(y + x)
            small[1, g, c] = np.float64(y - x)
    elif form == _THREE_M:
        for c in range(count):
            k = first + np.uint64(c)
            x, y = np.int64(r[q, i, k]), np.int64(r[q + 1, i, k])
            small[0, g, c] = np.float64(x - y)
            small[1, g, c] = np.float64(np.int64(r[q + 2, i, k]) - x - y)
    else:
        for c in range(count):
            k = first + np.uint64(c)
            x, y = np.int64(r[q, i, k]), np.int64(r[q + 1, i, k])
            small[0, g, c] = np.float64(x - y)
            x, y = np.int64(r[q + 2, i, k]), np.int64(r[q + 3, i, k])
            small[1, g, c] = np.float64(x + y)


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_group(small, weights, part, first, count, d):  # type: ignore[no-untyped-def]
    """d[part, digit] += sum_g weights[part, digit, first + g] small[part, g]."""
    for t in range(d.shape[1]):
        w0, w1 = weights[part, t, first], weights[part, t, first + 1]
        w2, w3 = weights[part, t, first + 2], weights[part, t, first + 3]
        w4, w5 = weights[part, t, first + 4], weights[part, t, first + 5]
        w6, w7 = weights[part, t, first + 6], weights[part, t, first + 7]
        for c in range(count):
            total = d[part, t, c] if first > 0 else 0.0
            total += w0 * small[part, 0, c]
            total += w1 * small[part, 1, c]
            total += w2 * small[part, 2, c]
            total += w3 * small[part, 3, c]
            total += w4 * small[part, 4, c]
            total += w5 * small[part, 5, c]
            total += w6 * small[part, 6, c]
            total += w7 * small[part, 7, c]
            d[part, t, c] = total


@njit(nogil=True, cache=True)
def sum_residues(r, i, start, count, forms, weights, small, d):  # type: ignore[no-untyped-def]
    """Sum the digits of the weights times residues: to d[part, digit, piece]."""
    q = 0
    for first in range(0, len(forms), GROUP):
        for g in range(min(GROUP, len(forms) - first)):
            form = forms[first + g]
            _combine(r, q, form, i, start, count, small, g)
            q += _PRODUCTS[form]
        for part in range(d.shape[0]):
            _add_group(small, weights, part, first, count, d)


@njit(nogil=True, cache=True, fastmath={"contract"})
def _carry(d, part, t, m, unit, count, quotients, carries):  # type: ignore[no-untyped-def]
    """Balance one digit but the last: steps 1 and 2."""
    inverse, half, halves = 1.0 / unit, unit / 2, np.int64(0)
    for c in range(count):
        x = d[part, t, c] - quotients[c] * m + carries[c]
        carry = np.floor((x + half) * inverse)
        x -= carry * unit
        carries[c] = carry
        d[part, t, c] = x
        halves += np.int64(x == -half)
    return halves


@njit(nogil=True, cache=True)
def reduce_digits(d, part, modulus, factors, unit, count, quotients, carries):  # type: ignore[no-untyped-def]
    """Follow steps 1 and 2 of the contract on d[part, digit, piece].

    Returns how many digits are ``-2^(b-1)``.
    """
    last = d.shape[1] - 1
    below = max(0, last - 1)
    # Of a single digit the second factor is 0.
    for c in range(count):
        q = d[part, last, c] * factors[0] + d[part, below, c] * factors[1]
        quotients[c] = np.rint(q)
        carries[c] = 0.0
    halves = np.int64(0)
    for t in range(last):
        halves += _carry(d, part, t, modulus[t], unit, count, quotients, carries)
    for c in range(count):
        d[part, last, c] += carries[c] - quotients[c] * modulus[last]
    return halves


@njit(nogil=True, cache=True)
def add_digits(d, part, unit, count, both, v):  # type: ignore[no-untyped-def]
    """Sum the digits from the least up, to v[part, word, piece]: step 3.

    `both`: the second word, too, the sum of what each sum leaves, exactly.
    """
    for c in range(count):
        v[part, 0, c] = d[part, 0, c]
    if both:
        for c in range(count):
            v[part, 1, c] = 0.0
    scale = 1.0
    for t in range(1, d.shape[1]):
        scale *= unit
        if both:
            for c in range(count):
                x, high = d[part, t, c] * scale, v[part, 0, c]
                total = x + high
                v[part, 1, c] += high - (total - x)
                v[part, 0, c] = total
        else:
            for c in range(count):
                v[part, 0, c] = d[part, t, c] * scale + v[part, 0, c]


@njit(nogil=True, cache=True)
def mirror_digits(d, part, unit, count, v):  # type: ignore[no-untyped-def]
    """Give negative integers the digits of their magnitudes, negated; rare."""
    half = unit / 2
    for c in range(count):
        if v[part, 0, c] < 0.0:
            carry = 0.0
            for t in range(d.shape[1]):
                digit = carry - d[part, t, c]
                carry = 0.0
                if digit >= half and t < d.shape[1] - 1:
                    digit -= unit
                    carry = 1.0
                d[part, t, c] = -digit
