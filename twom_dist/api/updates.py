"""The rank-k and rank-2k updates and their BLAS-typed names."""

from typing import Any

from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..tiles.routine import ROUTINES
from ..typing import Accuracy, EngineName, Method, Op, Uplo
from .routine import sum_of_one, sum_of_two, type_by_letter
from .types import Writable


@sum_of_one
def herk(
    A: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    uplo: Uplo = "full",
    diag: Any = None,
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Writable | None = None,
    engine: EngineName = "auto",
) -> Call:
    """Compute the Hermitian ``alpha A A^H + beta C``, one triangle only.

    Parameters
    ----------
    A : (..., n, k) array, or (..., k, n) with op "C"
        Any array that `gemm` takes.
    C : (..., n, n) array, optional
        As in `gemm`. Only the triangle that is computed is read (the lower one for
        "full").
    alpha : float
    beta : float, optional
        Has to be given with C.
    op : {"N", "C"}
        Use A as stored (N), or its conjugate transpose: ``A^H A``.
    uplo : {"full", "lower", "upper"}
        Return the whole matrix (default), or one triangle with zeros in the other,
        which is not computed.
    diag : (k,) real array, optional
        Diagonal between both: ``alpha A diag A^H + beta C``, with op "C"
        ``alpha A^H diag A``. As in `gemm`, whose bits the triangle has that is computed
        (the lower one for "full"), and at its cost for each tile of the diagonal.
    accuracy, num_moduli, method, out, engine : optional
        As in `gemm`.

    Returns
    -------
    (..., n, n) array
        Of the kind of A, as in `gemm`. Hermitian bit for bit, with a real
        diagonal.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`; ArgumentError also for complex scalars.

    Notes
    -----
    Implements section 5 of [1]_. Costs half the int8 products of `gemm` with method 2m,
    since ``C- = C+^T``.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices".
    """
    choice = Choice.of(
        accuracy=accuracy, num_moduli=num_moduli, method=method, engine=engine
    )
    terms = Terms(ROUTINES["herk"], choice, (op,), uplo, alpha, beta)
    return Call(terms, A, None, C, out, diag=diag)


cherk, zherk = type_by_letter(herk, "cz")


@sum_of_one
def syrk(
    A: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    uplo: Uplo = "full",
    diag: Any = None,
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Writable | None = None,
    engine: EngineName = "auto",
) -> Call:
    """Compute the symmetric ``alpha A A^T + beta C``, one triangle only.

    Parameters
    ----------
    A : (..., n, k) array, or (..., k, n) with op "T"
        Any array that `gemm` takes.
    C : (..., n, n) array, optional
        As in `herk`.
    alpha : number
    beta : number, optional
        As in `gemm`.
    op : {"N", "T"}
        Use A as stored (N), or its transpose: ``A^T A``.
    uplo : {"full", "lower", "upper"}
        As in `herk`.
    diag : (k,) array, optional
        Diagonal between both: ``alpha A diag A^T + beta C``, with op "T"
        ``alpha A^T diag A``. As in `gemm`, whose bits the triangle has that is computed
        (the lower one for "full"), and at its cost for each tile of the diagonal.
    accuracy, num_moduli, method, out, engine : optional
        As in `gemm`.

    Returns
    -------
    (..., n, n) array
        Of the kind of A, as in `gemm`. Symmetric bit for bit.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`.

    Notes
    -----
    Costs the int8 products of one triangle of tiles.
    """
    choice = Choice.of(
        accuracy=accuracy, num_moduli=num_moduli, method=method, engine=engine
    )
    terms = Terms(ROUTINES["syrk"], choice, (op,), uplo, alpha, beta)
    return Call(terms, A, None, C, out, diag=diag)


ssyrk, dsyrk, csyrk, zsyrk = type_by_letter(syrk, "sdcz")


@sum_of_two
def her2k(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Writable | None = None,
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
) -> Call:
    """Compute the Hermitian ``alpha A B^H + conj(alpha) B A^H + beta C``.

    Parameters
    ----------
    A, B : (..., n, k) arrays, or (..., k, n) with op "C"
        Any arrays that `gemm` takes.
    C : (..., n, n) array, optional
        As in `herk`.
    alpha : number
    beta : float, optional
        Has to be given with C.
    op : {"N", "C"}
        Use A and B as stored (N), or their conjugate transposes.
    uplo : {"full", "lower", "upper"}
        As in `herk`.
    accuracy, num_moduli, method, out, engine, equilibrate : optional
        As in `gemm`.

    Returns
    -------
    (..., n, n) array
        Of the kind of A and B, as in `gemm`. Hermitian bit for bit, with a
        real diagonal.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`; ArgumentError also for a complex beta.

    Notes
    -----
    Costs the int8 products of one `gemm` instead of two: ``C = S + S^H`` with
    ``S = alpha A B^H``. A and B are scaled apart, since the common scaling of [1]_
    loses accuracy where they differ in size.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 5.
    """
    choice = Choice.of(
        accuracy=accuracy,
        num_moduli=num_moduli,
        method=method,
        engine=engine,
        equilibrate=equilibrate,
    )
    return Call(
        Terms(ROUTINES["her2k"], choice, (op,), uplo, alpha, beta), A, B, C, out
    )


cher2k, zher2k = type_by_letter(her2k, "cz")


@sum_of_two
def syr2k(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Writable | None = None,
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
) -> Call:
    """Compute the symmetric ``alpha A B^T + alpha B A^T + beta C``.

    Parameters
    ----------
    A, B : (..., n, k) arrays, or (..., k, n) with op "T"
        Any arrays that `gemm` takes.
    C : (..., n, n) array, optional
        As in `herk`.
    alpha : number
    beta : number, optional
        As in `gemm`.
    op : {"N", "T"}
        Use A and B as stored (N), or their transposes.
    uplo : {"full", "lower", "upper"}
        As in `herk`.
    accuracy, num_moduli, method, out, engine, equilibrate : optional
        As in `gemm`.

    Returns
    -------
    (..., n, n) array
        Of the kind of A and B, as in `gemm`. Symmetric bit for bit.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`.

    Notes
    -----
    Costs the int8 products of one `gemm` instead of two: ``C = S + S^T`` with
    ``S = alpha A B^T``.
    """
    choice = Choice.of(
        accuracy=accuracy,
        num_moduli=num_moduli,
        method=method,
        engine=engine,
        equilibrate=equilibrate,
    )
    return Call(
        Terms(ROUTINES["syr2k"], choice, (op,), uplo, alpha, beta), A, B, C, out
    )


ssyr2k, dsyr2k, csyr2k, zsyr2k = type_by_letter(syr2k, "sdcz")
