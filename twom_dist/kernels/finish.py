"""Passes over finished tiles, on NumPy arrays: scalars of BLAS, mirrors, diagonals.

In a finished tile every zero is positive and every NaN is NumPy's, so the bits show
neither how the result was tiled nor which triangle was computed.
"""

from functools import reduce
from typing import Any

import numpy as np

from ..typing import Array, Uplo


def scale_and_add(
    x: Array | None, alpha: complex, beta: complex, c: Array | None, dtype: Any
) -> Array:
    """Return alpha x + beta c: see `Engine.scale_and_add`.

    Real scalars act on each part: an Inf in one of them makes no NaN in the other.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        terms = [
            _times(term, scalar)
            for term, scalar in ((x, alpha), (c, beta))
            if term is not None and scalar != 0
        ]
        total = reduce(np.add, terms)
        given = any(total is t for t in (x, c))
        return make_canonical(np.ascontiguousarray(total.astype(dtype, copy=given)))


def make_canonical(x: Array) -> Array:
    """Make every zero of a contiguous array positive and every NaN the same, in place.

    Without the first, herk and gemm would differ: the sign of an imaginary part that
    underflowed or was multiplied by a negative alpha is not that of its mirror image.
    """
    parts = x.view(x.real.dtype)
    parts += 0.0
    parts[np.isnan(parts)] = np.nan
    return x


def _conjugate(x: Array) -> Array:
    """Conjugate by ``0 - im``, whose zeros are positive where those of im are."""
    out = np.array(x, order="C")
    if np.iscomplexobj(out):
        np.subtract(0, out.imag, out=out.imag)
    return out


def _times(x: Array, factor: complex) -> Array:
    """Multiply in double, by parts where the factor is real; x itself by 1."""
    double = np.complex128 if np.iscomplexobj(x) else np.float64
    if factor == 1:
        return x.astype(double, copy=False)
    x = np.array(x, dtype=double, order="C")
    if complex(factor).imag == 0:
        x.view(np.float64)[...] *= complex(factor).real
        return x
    re, im = complex(factor).real, complex(factor).imag
    out = np.empty_like(x)
    out.real = re * x.real - im * x.imag
    out.imag = re * x.imag + im * x.real
    return out


def mirror_tile(tile: Array, *, conjugate: bool, out: Array | None = None) -> Array:
    """See `Engine.mirror_tile`."""
    turned = tile.swapaxes(-1, -2)
    found = _conjugate(turned) if conjugate else np.array(turned, order="C")
    if out is None:
        return found
    out[...] = found
    return out


def symmetrise_diagonal_tile(tile: Array, *, conjugate: bool, uplo: Uplo) -> Array:
    """See `Engine.symmetrise_diagonal_tile`."""
    # The triangle below the diagonal: of the transposed view for "upper".
    lower = tile.swapaxes(-1, -2) if uplo == "upper" else tile
    rows, columns = np.tril_indices(tile.shape[-1], -1)
    below = lower[..., rows, columns] if uplo == "full" else 0
    lower[..., columns, rows] = _conjugate(below) if conjugate else below
    if conjugate and np.iscomplexobj(tile):
        diagonal = np.arange(tile.shape[-1])
        tile.imag[..., diagonal, diagonal] = 0
    return tile
