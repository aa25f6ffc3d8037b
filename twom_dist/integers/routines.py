"""Exact products of integers, and of Gaussian integers as pairs, in doubles.

As many moduli are taken as the dtypes and k need for a product without any rounding,
which has to stay within 2^53 for all integers of these dtypes; `matmul` takes others.
Of integers in floating point, and of those of 32 and 64 bits in memory, the largest
entries tell what the dtypes do not.
"""

from typing import Any, Unpack

from ..api.routine import of_two, updates
from ..api.types import Writable
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.dtypes import letter_of
from ..problem.options import ExactOptions
from ..tiles.routine import ROUTINES, Routine
from ..typing import Op, Uplo


@of_two
def gemm(
    A: Any,
    B: Any,
    *,
    op_a: Op = "N",
    op_b: Op = "N",
    alpha: complex = 1,
    dtype: Any = None,
    out: Writable | None = None,
    **options: Unpack[ExactOptions],
) -> Call:
    """Compute ``alpha op(A) op(B)`` of integers, whose product is not rounded.

    Parameters
    ----------
    A : (..., m, k) array, or (..., m, k, 2) with pairs
        Of integers or booleans: any array that `twom_dist.gemm` takes, as stored. Or of
        floating-point numbers that are integers, complex ones for Gaussian integers;
        they are all looked at, those of dask arrays and files as blocks are read.
    B : (..., k, n) array, or (..., k, n, 2) with pairs
        As A.
    op_a, op_b : {"N", "T", "C"}
        Use the matrix as stored (N), transposed (T) or conjugate-transposed (C).
    alpha : number
        Factor of the exact product, such as one over the number of samples. Default: 1,
        which rounds nothing.
    dtype : dtype, optional
        Of the result: complex64 and float32 round its entries once.
    out : (..., m, n) array, optional
        As in `twom_dist.gemm`.
    **options : optional
        pairs: whether the last axes, of length 2, hold real and imaginary parts. They
        stay integers until they are encoded, in dask's graphs and in transit, too.
        Default: no, but stacks of 8 or 16 bits whose last axis has length 2 are
        refused. method, other than "eisenstein" and "blas", and engine: as in
        `twom_dist.gemm`.

    Returns
    -------
    (..., m, n) array
        Of float64, or of complex128 with pairs and if A or B is complex, unless dtype
        is given; and of the kind of A and B.

    Raises
    ------
    ArgumentError
        (A TypeError.) For other dtypes.
    PlanError, AccuracyError
        (ValueErrors.) For shapes that do not fit, option values that do not exist,
        floating-point entries that are not integers, and integers whose products may
        exceed 2^53 by k and the dtypes, or by the largest entries of arrays in memory
        in floating point or of 32 or 64 bits; of floating-point dask arrays, of which
        those are not known, for entries above ``sqrt(2^53 / k)`` (with two parts
        ``sqrt(2^52 / k)``), when a block is read.
    MemoryLimitError
        As `twom_dist.gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> import twom_dist as td
    >>> A = np.array([[100, -7], [3, 1]], np.int16)
    >>> td.integers.gemm(A, A)
    array([[9979., -707.],
           [ 303.,  -20.]])
    >>> td.integers.gemm(A, np.array([[3 - 1j], [2j]]))
    array([[300.-114.j],
           [  9.  -1.j]])
    """
    letter = None if dtype is None else letter_of(dtype)
    choice, routine = Choice.exact(**options), ROUTINES["gemm"]
    terms = Terms(routine, choice, (op_a, op_b), "full", alpha, None, letter)
    return Call(terms, A, B, None, out)


@updates
def _update(
    routine: Routine,
    A: Any,
    B: Any,
    *,
    op: Op = "N",
    uplo: Uplo = "full",
    alpha: complex = 1,
    dtype: Any = None,
    out: Writable | None = None,
    **options: Unpack[ExactOptions],
) -> Call:
    """Compute the {kind} ``alpha ({product})`` of integers.

    The product is not rounded; alpha and dtype may round it.

    Parameters
    ----------
    {matrices} : (..., n, k) {arrays}, or (..., n, k, 2) with pairs
        As in `gemm`.
    op, uplo, alpha : optional
        As in `twom_dist.{name}`.
    dtype, out : optional
        As in `gemm`.
    **options : optional
        As in `gemm`.

    Returns
    -------
    (..., n, n) array
        As in `gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`.
    """
    letter = None if dtype is None else letter_of(dtype)
    choice = Choice.exact(**options)
    terms = Terms(routine, choice, (op,), uplo, alpha, None, letter)
    return Call(terms, A, B, None, out)


herk, syrk, her2k, syr2k = _update
