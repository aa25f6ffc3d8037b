"""Digits of the reconstruction, by pieces of a row: steps 1 to 3 of `Engine.decode`.

Both parts of a piece lie side by side, and what does not tell them apart takes them as
one line. Where `contract` is allowed, every result is exact, fused or not.

Kernels without `_nrt` count the references to their arrays, by atomic operations: about
60 for each piece of a row, which took as long as half of the arithmetic.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compiled import inner
from ..width import take_widest

# Entries decoded together at most: their scratch arrays nearly fit the first cache.
# Zen 5, 16 2M moduli, 1 thread: 6.3 ns an entry; with 512, 6.8.
PIECE = 256
# Moduli whose combined residues are added up before the sums are stored again. A loop
# with more than eight pairs of pointers to tell apart is not vectorised.
GROUP = 8
# Products ahead of those that are combined whose residues are fetched: they lie far
# apart, so that a CPU sees no pattern. Without, an entry of 16 2M moduli took 26 ns, 20
# with 4, 6 or 8 (Zen 2, 1 thread, residues in memory).
_AHEAD = 6
_LINE = 64  # bytes of a line of the cache

# How the residues of a modulus are combined.
FORMS = ("real", "2m", "3m", "4m")
_REAL, _TWO_M, _THREE_M, _FOUR_M = range(4)
# Products of a modulus of each form.
_PRODUCTS = (1, 2, 3, 4)


@intrinsic
def _prefetch(typing_context: Any, address: Any) -> Any:
    """Fetch a line of the cache that will be read."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        line = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), (line.type, word, word, word))
        name = "llvm.prefetch.p0i8"
        prefetch = cgutils.get_or_insert_function(builder.module, kind, name)
        # To read, soon, from memory.
        builder.call(prefetch, [line, *(ir.Constant(word, x) for x in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.intp), generate


@inner(_nrt=False, forceinline=True)
def _combine(r, q, form, i, start, count, small, g):  # type: ignore[no-untyped-def]
    """Combine the residues of products q, ... into small[g, part, piece]."""
    take_widest()
    # An index that might be negative, and count from the end, is not vectorised.
    first = np.uint64(start)
    if form == _REAL:
        for c in range(count):
            small[g, 0, c] = np.float64(r[q, i, first + np.uint64(c)])
    elif form == _TWO_M:
        for c in range(count):
            k = first + np.uint64(c)
            x, y = np.int64(r[q, i, k]), np.int64(r[q + 1, i, k])
            small[g, 0, c] = np.float64(y + x)
            small[g, 1, c] = np.float64(y - x)
    elif form == _THREE_M:
        for c in range(count):
            k = first + np.uint64(c)
            x, y = np.int64(r[q, i, k]), np.int64(r[q + 1, i, k])
            small[g, 0, c] = np.float64(x - y)
            small[g, 1, c] = np.float64(np.int64(r[q + 2, i, k]) - x - y)
    else:
        for c in range(count):
            k = first + np.uint64(c)
            x, y = np.int64(r[q, i, k]), np.int64(r[q + 1, i, k])
            small[g, 0, c] = np.float64(x - y)
            x, y = np.int64(r[q + 2, i, k]), np.int64(r[q + 3, i, k])
            small[g, 1, c] = np.float64(x + y)


@inner(_nrt=False, forceinline=True, fastmath={"contract"})
def _add_group(small, weights, part, first, count, d):  # type: ignore[no-untyped-def]
    """d[digit, part] += sum_g weights[part, digit, first + g] small[g, part]."""
    take_widest()
    for t in range(len(d)):
        w0, w1 = weights[part, t, first], weights[part, t, first + 1]
        w2, w3 = weights[part, t, first + 2], weights[part, t, first + 3]
        w4, w5 = weights[part, t, first + 4], weights[part, t, first + 5]
        w6, w7 = weights[part, t, first + 6], weights[part, t, first + 7]
        for c in range(count):
            total = d[t, part, c] if first > 0 else 0.0
            total += w0 * small[0, part, c]
            total += w1 * small[1, part, c]
            total += w2 * small[2, part, c]
            total += w3 * small[3, part, c]
            total += w4 * small[4, part, c]
            total += w5 * small[5, part, c]
            total += w6 * small[6, part, c]
            total += w7 * small[7, part, c]
            d[t, part, c] = total


@inner(_nrt=False)
def sum_residues(r, i, start, count, forms, weights, small, d):  # type: ignore[no-untyped-def]
    """Sum the digits of the weights times residues: to d[digit, part, piece]."""
    base = r.ctypes.data + i * r.strides[1] + start
    q = np.int64(0)  # a literal would compile _combine for its type, too
    for first in range(0, len(forms), GROUP):
        for g in range(min(GROUP, len(forms) - first)):
            form = forms[first + g]
            for ahead in range(q + _AHEAD, q + _AHEAD + _PRODUCTS[form]):
                # After the last product come those of the next piece.
                piece, product = divmod(ahead, len(r))
                line = base + product * r.strides[0] + piece * count
                for c in range(0, count, _LINE):
                    _prefetch(line + c)
            _combine(r, q, form, i, start, count, small, g)
            q += np.int64(_PRODUCTS[form])
        for part in range(d.shape[1]):
            _add_group(small, weights, part, first, count, d)


@inner(_nrt=False, fastmath={"contract"})
def _carry(d, t, m, unit, quotients, carries):  # type: ignore[no-untyped-def]
    """Balance one digit but the last: steps 1 and 2."""
    take_widest()
    inverse, half, halves = 1.0 / unit, unit / 2, np.int64(0)
    for c in range(d.shape[1]):
        x = d[t, c] - quotients[c] * m + carries[c]
        carry = np.floor((x + half) * inverse)
        x -= carry * unit
        carries[c] = carry
        d[t, c] = x
        halves += np.int64(x == -half)
    return halves


@inner(_nrt=False)
def reduce_digits(d, modulus, factors, unit, quotients, carries):  # type: ignore[no-untyped-def]
    """Follow steps 1 and 2 of the contract on d[digit, piece].

    Returns how many digits are ``-2^(b-1)``.
    """
    take_widest()
    last = len(d) - 1
    below = max(0, last - 1)
    # With a single digit the second factor is 0.
    for c in range(d.shape[1]):
        q = d[last, c] * factors[0] + d[below, c] * factors[1]
        quotients[c] = np.rint(q)
        carries[c] = 0.0
    halves = np.int64(0)
    for t in range(last):
        halves += _carry(d, t, modulus[t], unit, quotients, carries)
    for c in range(d.shape[1]):
        d[last, c] += carries[c] - quotients[c] * modulus[last]
    return halves


@inner(_nrt=False)
def add_digits(d, unit, v):  # type: ignore[no-untyped-def]
    """Sum the digits from the least up, to v[word, piece]: step 3.

    The second of two words is the sum of what each sum leaves, exactly.
    """
    take_widest()
    for c in range(d.shape[1]):
        v[0, c] = d[0, c]
    if len(v) == 2:
        for c in range(d.shape[1]):
            v[1, c] = 0.0
    scale = 1.0
    for t in range(1, len(d)):
        scale *= unit
        if len(v) == 2:
            for c in range(d.shape[1]):
                x, high = d[t, c] * scale, v[0, c]
                total = x + high
                v[1, c] += high - (total - x)
                v[0, c] = total
        else:
            for c in range(d.shape[1]):
                v[0, c] = d[t, c] * scale + v[0, c]


@inner(_nrt=False)
def mirror_digits(d, unit, v):  # type: ignore[no-untyped-def]
    """Give negative integers the digits of their magnitudes, negated; rare."""
    half, last = unit / 2, len(d) - 1
    for c in range(d.shape[1]):
        if v[0, c] < 0.0:
            carry = 0.0
            for t in range(last + 1):
                digit = carry - d[t, c]
                carry = 0.0
                if digit >= half and t < last:
                    digit -= unit
                    carry = 1.0
                d[t, c] = -digit
