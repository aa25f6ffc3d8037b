"""Products to twice the digits of double precision, as sums of two arrays.

Each routine returns hi and lo of float64 or complex128, without alpha, beta
and C. Their sum is the product to 2^-106, which takes the place of u in the bounds of
`twom_dist.gemm`; hi is the sum rounded to double.
"""

from typing import Any

from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..tiles.routine import ROUTINES
from ..typing import Accuracy, EngineName, Method, Op, Uplo
from .routine import as_symmetric, pair_of_one, pair_of_two

__all__ = ["gemm", "her2k", "herk", "syr2k", "syrk"]


@pair_of_two
def gemm(
    A: Any,
    B: Any,
    *,
    op_a: Op = "N",
    op_b: Op = "N",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
) -> Call:
    """Compute ``op(A) op(B)`` as the sum of two arrays, to twice the digits.

    Parameters
    ----------
    A : (..., m, k) array, or (..., k, m) with op_a "T" or "C"
        Of float64 or complex128, or what promotes to these, as in `twom_dist.gemm`.
    B : (..., k, n) array, or (..., n, k) with op_b "T" or "C"
        As A.
    op_a, op_b, accuracy, num_moduli, method, engine, equilibrate : optional
        As in `twom_dist.gemm`, with u = 2^-106; method is not "blas".

    Returns
    -------
    hi, lo : (..., m, n) arrays
        Of float64 or complex128, and of the kind of A and B. ``hi + lo == hi``.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `twom_dist.gemm`; PlanError also for single precision.

    Examples
    --------
    >>> import numpy as np
    >>> import twom_dist as td
    >>> hi, lo = td.twofold.gemm(np.array([[1.0, 2.0**-70]]), np.array([[1.0], [1.0]]))
    >>> float(hi[0, 0]), float(lo[0, 0]) == 2.0**-70
    (1.0, True)
    """
    choice = Choice.of(
        accuracy=accuracy,
        num_moduli=num_moduli,
        method=method,
        engine=engine,
        equilibrate=equilibrate,
        words=2,
    )
    return Call(Terms(ROUTINES["gemm"], choice, (op_a, op_b)), A, B)


@pair_of_one
def herk(
    A: Any,
    *,
    op: Op = "N",
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    engine: EngineName = "auto",
) -> Call:
    """Compute the Hermitian ``A A^H`` as the sum of two arrays, to twice the digits.

    Parameters
    ----------
    A : (..., n, k) array, or (..., k, n) with op "C"
        As in `gemm`.
    op, uplo, accuracy, num_moduli, method, engine : optional
        As in `twom_dist.herk`, with u = 2^-106; method is not "blas".

    Returns
    -------
    hi, lo : (..., n, n) arrays
        As in `gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`.
    """
    choice = Choice.of(
        accuracy=accuracy,
        num_moduli=num_moduli,
        method=method,
        engine=engine,
        words=2,
    )
    return Call(Terms(ROUTINES["herk"], choice, (op,), uplo), A)


syrk = as_symmetric(herk)


@pair_of_two
def her2k(
    A: Any,
    B: Any,
    *,
    op: Op = "N",
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
) -> Call:
    """Compute ``A B^H + B A^H`` as the sum of two arrays, to twice the digits.

    Parameters
    ----------
    A, B : (..., n, k) arrays, or (..., k, n) with op "C"
        As in `gemm`.
    op, uplo, accuracy, num_moduli, method, engine, equilibrate : optional
        As in `twom_dist.her2k`, with u = 2^-106; method is not "blas".

    Returns
    -------
    hi, lo : (..., n, n) arrays
        As in `gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`.
    """
    choice = Choice.of(
        accuracy=accuracy,
        num_moduli=num_moduli,
        method=method,
        engine=engine,
        equilibrate=equilibrate,
        words=2,
    )
    return Call(Terms(ROUTINES["her2k"], choice, (op,), uplo), A, B)


syr2k = as_symmetric(her2k)
