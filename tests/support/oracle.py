"""Exact oracles in Python integers: no floating-point step decides anything here."""

from dataclasses import dataclass
from functools import cached_property
from math import inf, isqrt, prod

import numpy as np

# Bits behind the binary point of the square roots below.
ROOT_BITS = 80


def integers(x):
    """Find integers (as objects) and a shift with ``x == integers / 2**shift``."""
    x = np.asarray(x, np.float64)
    mantissas, exponents = np.frexp(x)
    exponents = exponents.astype(np.int64) - 53
    nonzero = exponents[x != 0]
    lowest = int(nonzero.min()) if nonzero.size else 0
    whole = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    ups = np.where(x == 0, 0, exponents - lowest).astype(object)
    return whole * np.left_shift(np.ones_like(whole), ups), -lowest


def reconstruct(residues, moduli):
    """Find the integer nearest to zero that has these residues."""
    whole = prod(moduli)
    parts = ((r, p, whole // p) for r, p in zip(residues, moduli, strict=True))
    total = sum(r * rest * pow(rest, -1, p) for r, p, rest in parts)
    return (total + whole // 2) % whole - whole // 2


@dataclass(frozen=True)
class Exact:
    """The matrix ``(re + i im) / 2**shift``; entries are Python integers."""

    re: np.ndarray
    im: np.ndarray
    shift: int

    def __matmul__(self, other):
        re = self.re @ other.re - self.im @ other.im
        im = self.re @ other.im + self.im @ other.re
        return Exact(re, im, self.shift + other.shift)

    def at_shift(self, shift):
        up = 1 << (shift - self.shift)
        return Exact(self.re * up, self.im * up, shift)

    def __sub__(self, other):
        shift = max(self.shift, other.shift)
        x, y = self.at_shift(shift), other.at_shift(shift)
        return Exact(x.re - y.re, x.im - y.im, shift)

    def magnitudes(self):
        """Take ``|x|``, rounded down to `ROOT_BITS` more bits than x has."""
        return self._root(self.re * self.re + self.im * self.im)

    def norms(self, axis):
        """Take the 2-norms along an axis, rounded down."""
        square = self.re * self.re + self.im * self.im
        return self._root(square.sum(axis=axis, keepdims=True))

    def _root(self, square):
        root = np.frompyfunc(lambda t: isqrt(t << 2 * ROOT_BITS), 1, 1)(square)
        return Exact(root, 0 * root, self.shift + ROOT_BITS)

    def ratio(self, other):
        """Divide magnitudes: float64; 0/0 is 0, and x/0 is infinite."""
        x, y = self.magnitudes(), other.magnitudes()
        up, down = max(0, y.shift - x.shift), max(0, x.shift - y.shift)

        def divide(a, b):
            if b == 0:
                return inf if a else 0.0
            # True division of integers rounds once.
            return (a << up) / (b << down)

        return np.frompyfunc(divide, 2, 1)(x.re, y.re).astype(np.float64)

    def rounded(self):
        def nearest(t):
            try:
                return (t << max(0, -self.shift)) / (1 << max(0, self.shift))
            except OverflowError:
                return inf if t > 0 else -inf

        out = np.empty(self.re.shape, np.complex128)
        out.real = np.frompyfunc(nearest, 1, 1)(self.re)
        out.imag = np.frompyfunc(nearest, 1, 1)(self.im)
        return out


def exact(x):
    """Read a real or complex matrix of doubles or singles exactly."""
    x = np.asarray(x)
    (re, re_shift), (im, im_shift) = integers(x.real), integers(x.imag)
    shift = max(re_shift, im_shift)
    return Exact(re * (1 << (shift - re_shift)), im * (1 << (shift - im_shift)), shift)


class ExactProduct:
    """The exact product of two matrices of floats, to measure errors against."""

    def __init__(self, a, b):
        self.left, self.right = exact(a), exact(b)

    @cached_property
    def value(self):
        """``a b``."""
        return self.left @ self.right

    @cached_property
    def magnitudes(self):
        """``|a| |b|``."""
        return self.left.magnitudes() @ self.right.magnitudes()

    @cached_property
    def norms(self):
        """``||a_i|| ||b_j||``."""
        return self.left.norms(1) @ self.right.norms(0)

    def normwise_error(self, c):
        """Largest ``|c - a b|_ij / (||a_i|| ||b_j||)``, rounded once."""
        return float((exact(c) - self.value).ratio(self.norms).max())

    def componentwise_error(self, c):
        """Largest ``|c - a b|_ij / (|a| |b|)_ij``, rounded once."""
        return float((exact(c) - self.value).ratio(self.magnitudes).max())
