"""Scalars of BLAS on whole arrays: ``alpha x + beta c`` with the bits of `decode`."""

from functools import reduce
from typing import Any

import numpy as np

from ..typing import Array
from .family import namespace


def scale_and_add(
    x: Array | None, alpha: complex, beta: complex, c: Array | None, dtype: Any
) -> Array:
    """Return alpha x + beta c as `decode` does; x is None where the product is empty.

    In double, rounded once. Scalars of 1 touch nothing and real ones act on each part,
    so that an Inf in one part makes no NaN in the other.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        terms = [
            _times(term, scalar)
            for term, scalar in ((x, alpha), (c, beta))
            if term is not None and scalar != 0
        ]
        total = reduce(np.add, terms)
        out: Array = namespace(total).ascontiguousarray(total.astype(dtype))
        return out


def _times(x: Array, factor: complex) -> Array:
    """Multiply in double, by parts where the factor is real."""
    double = np.complex128 if x.dtype.kind == "c" else np.float64
    x = x.astype(double, order="C")
    if factor == 1:
        return x
    if complex(factor).imag == 0:
        x.view(np.float64)[...] *= complex(factor).real
        return x
    re, im = complex(factor).real, complex(factor).imag
    out = np.empty_like(x)
    out.real = re * x.real - im * x.imag
    out.imag = re * x.imag + im * x.real
    return out
