"""The rank-k and rank-2k updates: herk, syrk, her2k and syr2k."""

from typing import Any

from ..typing import Accuracy, EngineName, Method, Op, Uplo
from .gemm import call
from .signatures import as_update, as_update2


@as_update
def herk(
    A: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    dim: str | None = None,
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Any = None,
    engine: EngineName = "auto",
    pairs: bool = False,
) -> Any:
    """Compute the Hermitian ``alpha A A^H + beta C``, one triangle only.

    Parameters
    ----------
    A : (..., n, k) array, or (..., k, n) with op "C"
        Any array that `gemm` takes.
    C : (..., n, n) array, optional
        Not modified. Only the triangle that is computed is read (the lower one for
        "full"), and nothing if beta is 0.
    alpha : float
    beta : float, optional
        Has to be given with C.
    op : {"N", "C"}
        Use A as stored (N), or its conjugate transpose: ``A^H A``.
    dim : str, optional
        The dimension to contract, of a DataArray of xarray. Of the others the last is
        the rows, those before it are stacks; the columns are called as the rows, with
        "_2" behind, and have their labels.
    uplo : {"full", "lower", "upper"}
        Return the whole matrix (default), or one triangle with zeros in the other,
        which is not computed.
    accuracy, num_moduli, method, out, engine, pairs : optional
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
    return call("herk", **locals())


@as_update
def syrk(
    A: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    dim: str | None = None,
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Any = None,
    engine: EngineName = "auto",
    pairs: bool = False,
) -> Any:
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
    dim : str, optional
        As in `herk`.
    uplo : {"full", "lower", "upper"}
        As in `herk`.
    accuracy, num_moduli, method, out, engine, pairs : optional
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
    return call("syrk", **locals())


@as_update2
def her2k(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    dim: str | None = None,
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Any = None,
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
    pairs: bool = False,
) -> Any:
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
    dim : str, optional
        As in `herk`; A and B have the same dimensions.
    uplo : {"full", "lower", "upper"}
        As in `herk`.
    accuracy, num_moduli, method, out, engine, equilibrate, pairs : optional
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
    return call("her2k", **locals())


@as_update2
def syr2k(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    dim: str | None = None,
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Any = None,
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
    pairs: bool = False,
) -> Any:
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
    dim : str, optional
        As in `herk`; A and B have the same dimensions.
    uplo : {"full", "lower", "upper"}
        As in `herk`.
    accuracy, num_moduli, method, out, engine, equilibrate, pairs : optional
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
    return call("syr2k", **locals())
