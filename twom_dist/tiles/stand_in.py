"""The product instead of an int8 one, where no residue system is accurate enough.

It is that of NumPy or CuPy, but overflows only where ``|alpha| |op(A)| |op(B)|`` does:
``alpha op(A) op(B)`` may be finite where ``op(A) op(B)`` is not. Single precision is
multiplied in double, which holds all its products. In double, where sums overflow, the
product is computed once more from op(A) and op(B) times 2^-540, whose sums do not.
There the scaled sums serve, and nowhere else. Entries that scaling rounds have errors
of at most 2^-535, and their products of 2^489: nothing next to terms near 2^1024. To
scale rows and columns would not do: it loses small entries that decide other sums.
"""

import numpy as np

from ..kernels.family import namespace
from ..typing import Array
from .accumulator import Accumulator
from .blocks import unlike_chunks
from .spec import Spec, load_engine

_SHIFT = 540  # both operands are scaled: sums of 2^56 products are finite
# Sums of products, and those times 2^-1080 where the first are not finite.
Sums = tuple[Array, Array | None]


def multiply(x: Array, y: Array, before: Accumulator | None) -> Sums:
    """Return x y^T plus the sums before."""
    x, y = _widen(x), _widen(y).swapaxes(-1, -2)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.matmul(x, y)
        if before is not None:
            if before.values.shape != total.shape:
                raise unlike_chunks()
            total += before.values
        if _suffice(total, before):
            return total, None
        scaled = np.matmul(_scale(x, -_SHIFT), _scale(y, -_SHIFT))
        return total, scaled if before is None else scaled + _scaled_values(before)


def add(x: Accumulator, y: Accumulator) -> Sums:
    """Add the sums of two parts along k."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = x.values + y.values
        if _suffice(total, x, y):
            return total, None
        return total, _scaled_values(x) + _scaled_values(y)


def finish(sums: Accumulator, spec: Spec, beta: complex, c: Array | None) -> Array:
    """Return alpha times the sums plus beta c."""
    scale_and_add, double = load_engine(spec).scale_and_add, sums.values.dtype
    added = None if c is None else c.astype(double)
    out = scale_and_add(sums.values, spec.alpha, beta, added, double)
    if sums.scaled is not None:
        # alpha 2^1080 may be too large: first the fraction of alpha, then its exponent.
        parts = np.array([spec.alpha.real, spec.alpha.imag])
        exponent = int(np.frexp(np.abs(parts).max())[1])
        fraction = complex(*np.ldexp(parts, -exponent))
        large = scale_and_add(sums.scaled, fraction, 0, None, double)
        large = _scale(large, exponent + 2 * _SHIFT)
        if added is not None and beta != 0:
            large = scale_and_add(large, 1, beta, added, double)
        finite = namespace(out).isfinite(sums.values)
        out = namespace(out).where(finite, out, large)
    with np.errstate(over="ignore"):
        found: Array = out.astype(spec.dtype, copy=False)
        return found


def _widen(x: Array) -> Array:
    wide: Array = x.astype(np.result_type(x.dtype, np.float64), copy=False)
    return wide


def _scale(x: Array, exponent: int) -> Array:
    """Return x 2^exponent, by parts: an Inf in one makes no NaN in the other."""
    xp = namespace(x)
    parts = xp.ascontiguousarray(x).view(np.float64)
    with np.errstate(over="ignore"):
        scaled: Array = xp.ldexp(parts, exponent).view(x.dtype)
    return scaled


def _suffice(total: Array, *before: Accumulator | None) -> bool:
    """Tell whether sums need no scaled ones next to them."""
    alone = all(x is None or x.scaled is None for x in before)
    return alone and bool(namespace(total).isfinite(total).all())


def _scaled_values(x: Accumulator) -> Array:
    return _scale(x.values, -2 * _SHIFT) if x.scaled is None else x.scaled
