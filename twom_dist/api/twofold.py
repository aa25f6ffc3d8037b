"""Products to twice the digits of double precision, as sums of two arrays.

Each routine returns hi and lo of float64 or complex128, without alpha, beta and C.
Their sum is the product with the error bounds of `twom_dist.gemm` for u = 2^-106; hi is
the sum rounded to double.
"""

from typing import Any, Unpack

from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.options import OptionsDict
from ..tiles.routine import ROUTINES, Routine
from ..typing import Op, Uplo
from .routine import pair_of_two, pair_updates

__all__ = ["gemm", "her2k", "herk", "syr2k", "syrk"]


@pair_of_two
def gemm(
    A: Any, B: Any, *, op_a: Op = "N", op_b: Op = "N", **options: Unpack[OptionsDict]
) -> Call:
    """Compute ``op(A) op(B)`` to twice the digits, as the sum of two arrays.

    Parameters
    ----------
    A : (..., m, k) array, or (..., k, m) with op_a "T" or "C"
        Of float64, complex128, or a dtype that promotes to one of these; otherwise as
        in `twom_dist.gemm`.
    B : (..., k, n) array, or (..., n, k) with op_b "T" or "C"
        As A.
    op_a, op_b, **options : optional
        As in `twom_dist.gemm`; method is not "blas".

    Returns
    -------
    hi, lo : (..., m, n) arrays
        Of float64 or complex128, and of the library of A and B.

    See Also
    --------
    herk, syrk, her2k, syr2k : Hermitian and symmetric results, for half the work.
    twom_dist.gemm : The product in one array.
    twom_dist.integers.gemm : The product of integers without any rounding.

    Notes
    -----
    ``hi + lo`` is the product, with the error bounds of `twom_dist.gemm` for u = 2^-106
    instead of 2^-53. hi is that sum rounded to double precision: ``hi + lo == hi``.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> hi, lo = td.twofold.gemm(np.array([[1.0, 2.0**-70]]), np.array([[1.0], [1.0]]))
    >>> float(hi[0, 0]), float(lo[0, 0]) == 2.0**-70
    (1.0, True)
    """
    terms = Terms(ROUTINES["gemm"], Choice.of(components=2, **options), (op_a, op_b))
    return Call(terms, A, B)


@pair_updates
def _update(
    routine: Routine,
    A: Any,
    B: Any,
    *,
    op: Op = "N",
    uplo: Uplo = "full",
    **options: Unpack[OptionsDict],
) -> Call:
    """Compute the {kind} ``{product}`` to twice the digits, as two arrays.

    Parameters
    ----------
    {matrices} : (..., n, k) {arrays}, or (..., k, n) with op "{op}"
        As in `gemm`.
    op, uplo, **options : optional
        As in `gemm` and `twom_dist.{name}`.

    Returns
    -------
    hi, lo : (..., n, n) arrays
        {Kind}; otherwise as in `gemm`.

    See Also
    --------
    gemm : Products of two matrices; says how accurate the sum of both arrays is.
    twom_dist.{name} : In one array, of double or single precision.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.array([[1 + 2j, 3], [0, 1j]])
    >>> hi, lo = td.twofold.{name}({given})
    >>> hi, bool((lo == 0).all())
    ({example}, True)
    """
    return Call(Terms(routine, Choice.of(components=2, **options), (op,), uplo), A, B)


herk, syrk, her2k, syr2k = _update
