"""The routines for DataArrays of xarray: names of dimensions say what is contracted.

Labels of dimensions that matrices share have to agree, and the result has those of its
rows and columns.
"""

from collections.abc import Hashable
from typing import Any

from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..tiles.routine import ROUTINES
from ..typing import Accuracy, EngineName, Method, Uplo
from .asking import as_symmetric, labelled_of_one, labelled_of_two

__all__ = ["gemm", "her2k", "herk", "syr2k", "syrk"]


@labelled_of_two
def gemm(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    dim: Hashable,
    alpha: complex = 1,
    beta: complex | None = None,
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
) -> Call:
    """Compute ``alpha sum_k A(i, k) B(k, j) + beta C(i, j)`` of DataArrays.

    Parameters
    ----------
    A, B : DataArray
        Of any array that `twom_dist.gemm` takes.
    C : DataArray, optional
        Has the dimensions of the result.
    dim : hashable
        The dimension to contract, wherever it stands. What else A and B share are
        stacks of matrices, label by label; of the rest each has one dimension.
    alpha, beta : number
        As in `twom_dist.gemm`.
    accuracy, num_moduli, method, engine, equilibrate : optional
        As in `twom_dist.gemm`.

    Returns
    -------
    DataArray
        Its dimensions are the stacks, then the rows and the columns.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `twom_dist.gemm`, and for dimensions or labels that do not fit.
    """
    choice = Choice.of(
        accuracy=accuracy,
        num_moduli=num_moduli,
        method=method,
        engine=engine,
        equilibrate=equilibrate,
    )
    terms = Terms(ROUTINES["gemm"], choice, alpha=alpha, beta=beta)
    return Call(terms, A, B, C, dim=dim)


@labelled_of_one
def herk(
    A: Any,
    C: Any = None,
    *,
    dim: Hashable,
    alpha: complex = 1,
    beta: complex | None = None,
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    engine: EngineName = "auto",
) -> Call:
    """Compute the Hermitian ``alpha A A^H + beta C`` of a DataArray.

    Parameters
    ----------
    A : DataArray
        As in `gemm`.
    C : DataArray, optional
        Has the dimensions of the result.
    dim : hashable
        The dimension to contract. Of the others the last is the rows, those
        before it are stacks; the columns are called as the rows, with "_2" behind, and
        have their labels.
    alpha, beta, uplo : optional
        As in `twom_dist.herk`.
    accuracy, num_moduli, method, engine : optional
        As in `twom_dist.gemm`.

    Returns
    -------
    DataArray
        As in `gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`.
    """
    choice = Choice.of(
        accuracy=accuracy, num_moduli=num_moduli, method=method, engine=engine
    )
    terms = Terms(ROUTINES["herk"], choice, uplo=uplo, alpha=alpha, beta=beta)
    return Call(terms, A, None, C, dim=dim)


syrk = as_symmetric(herk)


@labelled_of_two
def her2k(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    dim: Hashable,
    alpha: complex = 1,
    beta: complex | None = None,
    uplo: Uplo = "full",
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
) -> Call:
    """Compute ``alpha A B^H + conj(alpha) B A^H + beta C`` of DataArrays.

    Parameters
    ----------
    A, B : DataArray
        As in `gemm`, with the same dimensions.
    C : DataArray, optional
        Has the dimensions of the result.
    dim : hashable
        As in `herk`.
    alpha, beta, uplo : optional
        As in `twom_dist.her2k`.
    accuracy, num_moduli, method, engine, equilibrate : optional
        As in `twom_dist.gemm`.

    Returns
    -------
    DataArray
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
    )
    terms = Terms(ROUTINES["her2k"], choice, uplo=uplo, alpha=alpha, beta=beta)
    return Call(terms, A, B, C, dim=dim)


syr2k = as_symmetric(her2k)
