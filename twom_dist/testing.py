"""Test data and error measures for products, for our own tests and for yours."""

from fractions import Fraction
from functools import reduce
from math import inf, isqrt
from typing import Any

import dask
import numpy as np
import numpy.typing as npt

from .errors import ArgumentError, PlanError
from .problem.arguments import checked

__all__ = ["random_matrix", "residual", "sampled_errors"]


@checked
def random_matrix(
    m: int, n: int, *, phi: float = 1.0, dtype: Any = "complex128", seed: Any = 0
) -> npt.NDArray[Any]:
    """Draw random entries of varied magnitude: ``(U - 1/2) exp(phi N(0, 1))``.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    phi : float, optional
        Spread of the magnitudes: 0 is uniform, 1 (default) like dense problems, 4
        extreme.
    dtype : dtype, optional
        float32, float64, complex64 or complex128 (default, both parts drawn alike).
    seed : int or sequence of int, optional
        Seed for `numpy.random.default_rng`.

    Returns
    -------
    (m, n) ndarray
        Random matrix, C-contiguous.

    See Also
    --------
    sampled_errors, residual : Errors of a product of such matrices.

    Notes
    -----
    Unless phi is 0, the last bits of the entries differ between CPUs, because those of
    NumPy's exponential do.

    Examples
    --------
    >>> import twom_dist as td
    >>> td.testing.random_matrix(2, 2, phi=0, dtype="float64", seed=1).round(3)
    array([[ 0.012,  0.45 ],
           [-0.356,  0.449]])
    """
    rng, out = np.random.default_rng(seed), np.empty((m, n), dtype)
    if out.dtype.char not in "fdFD":
        problem = f"random_matrix draws no entries of dtype {out.dtype}"
        remedy = "Use float32, float64, complex64 or complex128"
        raise ArgumentError(problem, remedy, "dtype")
    for part in (out.real, out.imag) if out.dtype.kind == "c" else (out,):
        uniform = rng.random((m, n)) - 0.5
        part[...] = uniform * np.exp(phi * rng.standard_normal((m, n)))
    return out


@checked
def residual(A: Any, B: Any, C: Any, *, seed: int = 0) -> float:
    """Estimate the error of C = A B by random phases, in matrix-vector products.

    Parameters
    ----------
    A, B, C : (m, k), (k, n), (m, n) arrays
        NumPy or dask arrays.
    seed : int, optional
        Seed of the random phases of x.

    Returns
    -------
    float
        ``max_i |C x - A (B x)|_i / (||a_i|| sum_j ||b_j||)`` for an x with all
        ``|x_j| = 1``: apart from rounding of its own products, at most eps if
        ``|C - A B|_ij <= eps ||a_i|| ||b_j||``. 0 for empty products; Inf or NaN if
        entries are not finite.

    See Also
    --------
    sampled_errors : Errors of single entries, without rounding.

    Examples
    --------
    >>> import twom_dist as td
    >>> A = td.testing.random_matrix(60, 50)
    >>> td.testing.residual(A, A.T, td.gemm(A, A.T)) < 1e-15
    True
    """
    _check_shapes(A, B, C)
    if 0 in C.shape:
        return 0.0
    n = C.shape[1]
    x = np.exp(2j * np.pi * np.random.default_rng(seed).random(n))
    if np.dtype(C.dtype).kind != "c":
        x = np.sign(x.real)
    expected, scale, top = _multiply(A, B, x)
    (largest,) = dask.compute(_largest_parts(C))
    powers = _exponents(largest)
    (found,) = dask.compute(_scale(C, powers[:, np.newaxis]) @ x)
    with np.errstate(over="ignore", invalid="ignore"):
        difference = abs(_scale(found, top - powers) - expected)
        # Entries that underflow are rounded to multiples of the smallest number.
        tiny = np.frexp(np.finfo(C.dtype).smallest_subnormal)[1]
        difference = np.maximum(difference - np.ldexp(2.0 * n, tiny - top), 0)
        inside = np.isfinite(scale)
        relative = np.where(inside, difference, np.nan)
        np.divide(difference, scale, out=relative, where=inside & (scale > 0))
    # A row that overflows is not finite, and no error.
    most = np.finfo(C.dtype).maxexp - 1
    fits = inside & (top + np.frexp(np.where(inside, scale, 0))[1] < most)
    relative[~np.isfinite(found)] = np.nan
    relative[fits & ~np.isfinite(found)] = np.inf
    return float(relative.max())


def _multiply(A: Any, B: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return A (B x) and its scale, divided by 2^e, and the exponents e of rows.

    Every row of A, and B as a whole, is scaled by a power of two, so that no square
    overflows or underflows.
    """
    none = np.zeros(A.shape[0])
    if A.shape[1] == 0:
        return none, none, none.astype(int)
    of_rows, of_b = dask.compute(_largest_parts(A), _largest_parts(B))
    rows, whole = _exponents(of_rows), int(_exponents(of_b.max()))
    a, b = _scale(A, rows[:, np.newaxis]), _scale(B, whole)
    bx, columns = dask.compute(b @ x, (abs(b) ** 2).sum(axis=0))
    abx, squares = dask.compute(a @ bx, (abs(a) ** 2).sum(axis=1))
    return abx, np.sqrt(squares) * np.sqrt(columns).sum(), rows + whole


def _check_shapes(A: Any, B: Any, C: Any) -> None:
    shapes: list[Any] = [getattr(x, "shape", ()) for x in (A, B, C)]
    if all(len(shape) == 2 for shape in shapes):
        (m, k), (k_b, n), of_c = shapes
        if k == k_b and of_c == (m, n):
            return
    problem = "C is not of the shape of A B: {2}, and {0} times {1}".format(*shapes)
    remedy = "Give the matrices of one product"
    raise PlanError(problem, remedy, "shapes-do-not-fit")


def _largest_parts(x: Any) -> Any:
    """Return the largest |Re|, |Im| of each row."""
    parts = (x.real, x.imag) if np.dtype(x.dtype).kind == "c" else (x,)
    return reduce(np.maximum, (abs(part).max(axis=1) for part in parts))


def _exponents(largest: Any) -> Any:
    """Return exponents e with ``x < 2^e``; 0 where x is 0 or not finite."""
    return np.where(np.isfinite(largest), np.frexp(largest)[1], 0)


def _scale(x: Any, exponents: Any) -> Any:
    """Multiply by ``2^-e`` in two steps, since ``2^-e`` alone may not be a double."""
    e = np.clip(exponents, -2000, 2000)
    return x * np.ldexp(1.0, -(e // 2)) * np.ldexp(1.0, e // 2 - e)


@checked
def sampled_errors(
    A: Any, B: Any, C: Any, *, samples: int = 16, seed: int = 0
) -> dict[str, float]:
    """Compare some entries of C = A B with exact sums.

    Parameters
    ----------
    A, B, C : (m, k), (k, n), (m, n) ndarray
        Real or complex.
    samples : int, optional
        Number of entries to compare; each costs 4 k products of exact rationals.
    seed : int, optional
        Seed for the choice of entries.

    Returns
    -------
    dict
        Largest error relative to ``(|A||B|)_ij`` ("componentwise"), and relative to
        ``||a_i|| ||b_j||`` ("normwise").

    See Also
    --------
    residual : An estimate from all entries, also for dask arrays.

    Examples
    --------
    >>> import twom_dist as td
    >>> A = td.testing.random_matrix(60, 50)
    >>> td.testing.sampled_errors(A, A.T, td.gemm(A, A.T))["componentwise"] < 1e-15
    True
    """
    if not all(isinstance(x, np.ndarray) for x in (A, B, C)):
        problem = "sampled_errors needs NumPy arrays"
        raise ArgumentError(problem, "Compute dask arrays first", "not-numpy")
    _check_shapes(A, B, C)
    rng = np.random.default_rng(seed)
    worst = {"componentwise": 0.0, "normwise": 0.0}
    for _ in range(samples if C.size else 0):
        i, j = int(rng.integers(A.shape[0])), int(rng.integers(B.shape[1]))
        for name, error in _errors_of_entry(A[i], B[:, j], C[i, j]).items():
            worst[name] = max(worst[name], error)
    return worst


def _errors_of_entry(a: Any, b: Any, c: Any) -> dict[str, float]:
    """Measure the error of ``c = a b`` in rationals, which never overflow."""
    if not np.isfinite(c):
        return dict.fromkeys(("componentwise", "normwise"), inf)
    exact: Any = np.frompyfunc(Fraction, 1, 1)
    (ar, ai), (br, bi), (re, im) = (
        (exact(x.real.astype(float)), exact(x.imag.astype(float))) for x in (a, b, c)
    )
    re, im = re - (ar @ br - ai @ bi), im - (ar @ bi + ai @ br)
    error = _root(re * re + im * im)
    a_squares, b_squares = ar * ar + ai * ai, br * br + bi * bi
    magnitudes = sum(map(_root, a_squares * b_squares), Fraction(0))
    norms = _root(a_squares.sum() * b_squares.sum() + Fraction(0))
    scales = {"componentwise": magnitudes, "normwise": norms}
    return {name: _divide(error, scale) for name, scale in scales.items()}


def _divide(error: Fraction, scale: Fraction) -> float:
    """Divide and round; if the scale is 0, return the error itself."""
    try:
        return float(error / (scale or 1))
    except OverflowError:
        return inf


def _root(x: Fraction) -> Fraction:
    """Return the square root, rounded down by at most a relative 2^-64."""
    root = isqrt(x.numerator * x.denominator << 128)
    return Fraction(root, x.denominator << 64)
