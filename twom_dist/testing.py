"""Test data and error measures for products, for our own tests and for yours."""

from functools import reduce
from typing import Any

import dask
import numpy as np
import numpy.typing as npt

from .errors import ArgumentError, PlanError
from .problem.arguments import checked

__all__ = ["random_matrix", "residual"]


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
    residual : The error of a product of such matrices.

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
    twom_dist.twofold.gemm : The product to twice the digits, to compare entries with.

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
