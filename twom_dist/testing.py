"""Test data and error measures for products, for our tests and for those of users."""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["random_matrix", "residual", "sampled_errors"]


def random_matrix(
    m: int, n: int, *, phi: float = 1.0, dtype: Any = "complex128", seed: Any = 0
) -> npt.NDArray[Any]:
    """Draw entries ``(U - 1/2) exp(phi N(0, 1))``, real and imaginary part alike.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    phi : float
        Spread of the magnitudes: 0 uniform, 1 as in dense problems, 4 extreme.
    dtype : dtype
        float32, float64, complex64 or complex128.
    seed : int or sequence of int

    Returns
    -------
    (m, n) ndarray
        C-contiguous.

    Examples
    --------
    >>> random_matrix(2, 3, dtype="float64").shape
    (2, 3)
    """
    rng = np.random.default_rng(seed)
    out = np.empty((m, n), dtype)
    for part in (out.real, out.imag) if out.dtype.kind == "c" else (out,):
        uniform = rng.random((m, n)) - 0.5
        part[...] = uniform * np.exp(phi * rng.standard_normal((m, n)))
    return out


def residual(A: Any, B: Any, C: Any, *, seed: int = 0) -> float:
    """Measure ``max |C x - A (B x)|_i / (||a_i|| sum_j ||b_j||)``, all ``|x_j| = 1``.

    If ``|C - A B|_ij <= eps ||a_i|| ||b_j||``, it is at most eps, apart from the
    rounding of the three matrix-vector products.

    Parameters
    ----------
    A, B, C : (m, k), (k, n), (m, n) arrays
        NumPy or dask arrays.
    seed : int
        Of the random phases x.

    Returns
    -------
    float
        0 for empty products.
    """
    n = B.shape[1]
    x = np.exp(2j * np.pi * np.random.default_rng(seed).random(n))
    if np.dtype(C.dtype).kind != "c":
        x = np.sign(x.real)
    difference = abs(np.asarray(C @ x) - np.asarray(A @ np.asarray(B @ x)))
    rows = np.sqrt(np.asarray((abs(A) ** 2).sum(axis=1)))
    columns = np.sqrt(np.asarray((abs(B) ** 2).sum(axis=0)))
    scale = rows * columns.sum()
    relative = np.divide(difference, scale, out=difference, where=scale > 0)
    return float(relative.max(initial=0))


def sampled_errors(
    A: Any, B: Any, C: Any, *, samples: int = 16, seed: int = 0
) -> dict[str, float]:
    """Measure the largest error of sampled entries of C = A B against exact sums.

    Parameters
    ----------
    A, B, C : (m, k), (k, n), (m, n) ndarray
        Real or complex.
    samples : int
        Entries to look at; each costs 4 k products of exact rationals.
    seed : int

    Returns
    -------
    dict
        "componentwise": relative to ``(|A||B|)_ij``; "normwise": to
        ``||a_i|| ||b_j||``.
    """
    if not all(isinstance(x, np.ndarray) for x in (A, B, C)):
        raise TypeError("sampled_errors takes NumPy arrays; compute dask arrays first")
    if A.shape[1] != B.shape[0] or C.shape != (A.shape[0], B.shape[1]):
        raise ValueError(f"{A.shape} times {B.shape} given with a C of {C.shape}")
    rng = np.random.default_rng(seed)
    worst = {"componentwise": 0.0, "normwise": 0.0}
    for _ in range(samples):
        i, j = int(rng.integers(A.shape[0])), int(rng.integers(B.shape[1]))
        a, b = A[i], B[:, j]
        ar, ai, br, bi = (
            [Fraction(float(t)) for t in x] for x in (a.real, a.imag, b.real, b.imag)
        )
        re = sum(w * y - x * z for w, x, y, z in zip(ar, ai, br, bi, strict=True))
        im = sum(w * z + x * y for w, x, y, z in zip(ar, ai, br, bi, strict=True))
        re_error = float(re - Fraction(float(C[i, j].real)))
        im_error = float(im - Fraction(float(C[i, j].imag)))
        error = abs(complex(re_error, im_error))
        scales = {
            "componentwise": float(np.abs(a) @ np.abs(b)),
            "normwise": float(np.linalg.norm(a) * np.linalg.norm(b)),
        }
        for name, scale in scales.items():
            worst[name] = max(worst[name], error / scale if scale else error)
    return worst
