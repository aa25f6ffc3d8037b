"""The routines for DataArrays of xarray: names of dimensions say what is contracted.

Labels of dimensions that matrices share have to agree, and the result has those of its
rows and columns.
"""

from collections.abc import Hashable, Iterable
from typing import Any, Literal, Unpack

from ..errors import AccuracyError
from ..interop.data_arrays import join_parts
from ..problem.call import Call, Names, Terms
from ..problem.choice import Choice, choose
from ..problem.dtypes import letter_of
from ..problem.options import Options, OptionsDict
from ..tiles.routine import ROUTINES, Routine
from ..typing import Op, Uplo
from .routine import labelled_of_two, labelled_updates

__all__ = ["gemm", "her2k", "herk", "syr2k", "syrk"]

Dim = Hashable | Iterable[Hashable]
Pairs = Hashable | Literal[False] | None


@labelled_of_two
def gemm(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    dim: Dim,
    conj: Literal["A", "B"] | None = None,
    pairs: Pairs = None,
    dtype: Any = None,
    alpha: complex = 1,
    beta: complex | None = None,
    **options: Unpack[OptionsDict],
) -> Call:
    """Compute ``alpha sum_k A(i, k) B(k, j) + beta C(i, j)`` of DataArrays.

    Parameters
    ----------
    A, B : DataArray
        Of any array that `twom_dist.gemm` takes.
    C : DataArray, optional
        Has the dimensions of the result.
    dim : hashable or several
        The dimension to contract, or a list of them. As in `xarray.dot`, what else A
        and B share are stacks of matrices, label by label; the rest of A are rows, and
        the rest of B columns. One of them may be a vector, or a stack of vectors.
    conj : {"A", "B"}, optional
        The matrix that is conjugated, pairs of integers as well, of which the method
        ``conj()`` changes nothing.
    pairs : hashable or False, optional
        The dimension, of length 2, that holds real and imaginary parts of integers:
        their product is exact until it is multiplied by alpha. Integers that have a
        dimension of length 2 need it, or False, unless that is contracted. If only one
        matrix has it, and the other floating-point numbers, the pairs become complex.
    dtype : dtype, optional
        Dtype of the result, as the letter of a BLAS-typed name; with pairs complex64 or
        complex128. Default: the promoted one; complex128 with pairs.
    alpha, beta : number
        As in `twom_dist.gemm`.
    **options : optional
        As in `twom_dist.gemm`; of an exact product, method and engine.

    Returns
    -------
    DataArray
        Its dimensions are the stacks, then the rows and the columns.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `twom_dist.gemm`, and for dimensions or labels that do not fit.
    """
    A, B, pairs = join_parts(A, B, pairs)
    letter = None if dtype is None else letter_of(dtype)
    turned = "" if conj is None else choose("conj", conj, ("A", "B"))
    # Those of the matrices that lie behind.
    ops: tuple[Op, ...] = tuple("C" if x == turned else "N" for x in "AB")
    choice = _choose(pairs, options)
    terms = Terms(ROUTINES["gemm"], choice, ops, "full", alpha, beta, letter)
    return Call(terms, A, B, C, names=Names(dim, None, pairs))


@labelled_updates
def _update(
    routine: Routine,
    A: Any,
    B: Any,
    C: Any = None,
    *,
    dim: Dim,
    rows: Dim | None = None,
    pairs: Pairs = None,
    dtype: Any = None,
    alpha: complex = 1,
    beta: complex | None = None,
    uplo: Uplo = "full",
    **options: Unpack[OptionsDict],
) -> Call:
    """Compute the {kind} ``{formula}`` of DataArrays.

    Parameters
    ----------
    {matrices} : DataArray
        As in `gemm`; two have the same dimensions.
    C : DataArray, optional
        Has the dimensions of the result.
    dim : hashable or several
        The dimension to contract, or a list of them.
    rows : hashable or several, optional
        The dimension of the rows, or a list of them, if more than one is left; the
        others are stacks. Columns are called as the rows, with "_2" behind, and have
        their labels.
    pairs, dtype : optional
        As in `gemm`; a dimension that is named in rows holds no parts.
    alpha, beta, uplo : optional
        As in `twom_dist.{name}`.
    **options : optional
        As in `gemm`.

    Returns
    -------
    DataArray
        As in `gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`.
    """
    letter = None if dtype is None else letter_of(dtype)
    terms = Terms(routine, _choose(pairs, options), (), uplo, alpha, beta, letter)
    return Call(terms, A, B, C, names=Names(dim, rows, pairs))


herk, syrk, her2k, syr2k = _update


def _choose(pairs: Any, options: OptionsDict) -> Choice:
    """Parse the options of a routine; a product of pairs is exact."""
    if pairs is None or pairs is False:
        return Choice.of(**options)
    given = Options(**options)
    if (given.accuracy, given.num_moduli, given.equilibrate) != (None, None, None):
        problem = "a product of pairs is exact, whatever its moduli"
        remedy = "Leave accuracy, num_moduli and equilibrate out"
        raise AccuracyError(problem, remedy, "exact")
    return Choice.exact(pairs=True, method=given.method, engine=given.engine)
