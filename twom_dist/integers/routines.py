"""Exact products of integers, and of Gaussian integers as pairs, in doubles.

The dtypes and k decide how many moduli a product without any rounding needs. Entries of
the product must stay within 2^53 for all integers of these dtypes; `matmul` takes
larger ones. For floating-point numbers, and for integers of 32 and 64 bits in memory,
the largest entries decide instead of the dtypes.
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
    """Compute ``alpha op(A) op(B)`` of integers exactly.

    Parameters
    ----------
    A : (..., m, k) array, or (..., m, k, 2) with pairs
        Any array that `twom_dist.gemm` takes, of integers or booleans, or of
        floating-point numbers with integer values (complex for Gaussian integers). All
        floating-point entries are checked; in dask arrays and files, when their blocks
        are read.
    B : (..., k, n) array, or (..., k, n, 2) with pairs
        Like A.
    op_a, op_b : {"N", "T", "C"}, optional
        Use the matrix as it is, transposed, or conjugate-transposed.
    alpha : number, optional
        Factor of the exact product, such as one over the number of samples. Default: 1,
        which rounds nothing.
    dtype : dtype, optional
        Dtype of the result. int32 and int64 return integers, complex ones as pairs
        (..., m, n, 2), without alpha and out; int32 is refused if the dtypes and k
        allow larger sums. complex64 and float32 round entries once.
    out : (..., m, n) array, optional
        As in `twom_dist.gemm`.
    **options : optional
        pairs: True if the last axis of A and of B, of length 2, holds real and
        imaginary parts; no complex copy is made. Default: False, but arrays of 8 or 16
        bits with three or more axes, the last of length 2, are refused unless pairs is
        given. method, except "blas", and engine: as in `twom_dist.gemm`.

    Returns
    -------
    (..., m, n) array
        Array of the library of A and B; of float64, or with pairs or complex numbers of
        complex128, unless dtype is given.

    Raises
    ------
    PlanError, AccuracyError
        For floating-point entries that are not integers, and integers whose product may
        exceed 2^53; see Notes.

    See Also
    --------
    herk, syrk, her2k, syr2k : Hermitian and symmetric results, for half the work.
    matmul : Products of integers of any size, as int64 or Python integers.
    twom_dist.gemm : Products of any floating-point numbers.

    Notes
    -----
    The number of moduli depends on k and on the dtypes, or for floating-point entries
    and entries of 32 or 64 bits on the largest entries in memory. A double holds every
    integer up to 2^53, so larger sums are refused. The largest entries of
    floating-point dask arrays are not known, so an entry above ``sqrt(2^53 / k)``
    (``sqrt(2^52 / k)`` if complex) is refused when its block is read.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.array([[100, -7], [3, 1]], np.int16)
    >>> td.integers.gemm(A, A)
    array([[9979., -707.],
           [ 303.,  -20.]])
    >>> td.integers.gemm(A, np.array([[3 - 1j], [2j]]))
    array([[300.-114.j],
           [  9.  -1.j]])
    >>> td.integers.gemm(A, A, dtype="int64")
    array([[9979, -707],
           [ 303,  -20]])
    """
    letter = letter_of(dtype, exact=True)
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
    """Compute the {kind} ``alpha ({product})`` of integers exactly.

    Parameters
    ----------
    {matrices} : (..., n, k) {arrays}, or (..., n, k, 2) with pairs
        As in `gemm`.
    op, uplo, alpha, dtype, out, **options : optional
        As in `gemm` and `twom_dist.{name}`.

    Returns
    -------
    (..., n, n) array
        {Kind}; otherwise as in `gemm`.

    See Also
    --------
    gemm : Products of two matrices; says what is exact, and which integers fit.
    twom_dist.{name} : Of matrices of any floating-point numbers.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.array([[1 + 2j, 3], [0, 1j]])
    >>> td.integers.{name}({given})
    {example}
    """
    letter = letter_of(dtype, exact=True)
    choice = Choice.exact(**options)
    terms = Terms(routine, choice, (op,), uplo, alpha, None, letter)
    return Call(terms, A, B, None, out)


herk, syrk, her2k, syr2k = _update
