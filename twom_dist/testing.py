"""Test data and error measures for products, for our own tests and for yours."""

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
        entries, or squares of them, are not finite.

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
    bx, columns, found = dask.compute(B @ x, _square_sums(B, 0), C @ x)
    expected, rows = dask.compute(A @ bx, _square_sums(A, 1))
    difference, scale = abs(found - expected), np.sqrt(rows) * np.sqrt(columns).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(difference == 0, 0, difference / scale)
        return float((errors + 0 * scale).max())  # NaN where scales are infinite


def _square_sums(x: Any, axis: int) -> Any:
    """Sum squares, in double precision."""
    return (abs(x).astype(np.float64) ** 2).sum(axis=axis)


def _check_shapes(A: Any, B: Any, C: Any) -> None:
    shapes: list[Any] = [getattr(x, "shape", ()) for x in (A, B, C)]
    if all(len(shape) == 2 for shape in shapes):
        (m, k), (k_b, n), of_c = shapes
        if k == k_b and of_c == (m, n):
            return
    problem = "C is not of the shape of A B: {2}, and {0} times {1}".format(*shapes)
    remedy = "Give the matrices of one product"
    raise PlanError(problem, remedy, "shapes-do-not-fit")
