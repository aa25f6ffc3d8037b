"""The routines for xarray's DataArrays: names of dimensions say what is contracted.

Labels of dimensions that matrices share must agree, and the result has the labels of
its rows and columns.
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
        DataArrays of any array that `twom_dist.gemm` takes.
    C : DataArray, optional
        With the dimensions of the result.
    dim : hashable or several
        The dimension to sum over, or a list of them. As in `xarray.dot`, other
        dimensions that A and B share are batches, label by label; the rest of A are
        rows and the rest of B columns. A or B may be a vector, or a batch of them.
    conj : {"A", "B"}, optional
        The matrix to conjugate, also if it holds pairs, which ``conj()`` cannot do.
    pairs : hashable or False, optional
        The dimension, of length 2, that holds real and imaginary parts of integers,
        whose product is exact before alpha. If it has text labels, they begin with r
        and i, or with I and Q; without these, nothing tells another dimension. Integers
        with a dimension of length 2 that is not summed over need `pairs`: its name, or
        False. If only one matrix has pairs, and the other one floating-point numbers,
        the pairs become complex numbers.
    dtype : dtype, optional
        Dtype to work in and to return, as in BLAS-typed names. With pairs complex64,
        complex128, or int32 or int64, whose parts have that dimension again. Default:
        the promoted dtype, or complex128 with pairs.
    alpha, beta, **options : optional
        As in `twom_dist.gemm`; an exact product takes method and engine only.

    Returns
    -------
    DataArray
        Its dimensions are batches, rows and columns, in this order.

    See Also
    --------
    herk, syrk, her2k, syr2k : Hermitian and symmetric results, for half the work.
    twom_dist.gemm : The same of arrays; says how accurate the product is.

    Examples
    --------
    >>> import numpy as np, twom_dist as td, xarray as xr
    >>> A = xr.DataArray(np.ones((2, 3)), dims=("row", "time"))
    >>> td.xarray.gemm(A, A.rename(row="column"), dim="time")
    <xarray.DataArray (row: 2, column: 2)> Size: 32B
    array([[3., 3.],
           [3., 3.]])
    Dimensions without coordinates: row, column
    """
    A, B, pairs = join_parts(A, B, pairs)
    letter = letter_of(dtype, exact=pairs not in (None, False))
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
    """Compute ``{formula}`` of DataArrays.

    Parameters
    ----------
    {matrices} : DataArray
        As in `gemm`; two matrices need the same dimensions.
    C : DataArray, optional
        With the dimensions of the result.
    dim : hashable or several
        The dimension to sum over, or a list of them.
    rows : hashable or several, optional
        The dimension of the rows, or a list of them, if more than one is left; other
        dimensions are batches.
    pairs, dtype, alpha, beta, uplo, **options : optional
        As in `gemm` and `twom_dist.{name}`; pairs must not be in rows.

    Returns
    -------
    DataArray
        {Kind}. Columns have the labels of the rows, and "_2" added to their name.

    See Also
    --------
    gemm : Products of two DataArrays; describes pairs and dtype.
    twom_dist.{name} : The same of arrays.

    Examples
    --------
    >>> import twom_dist as td, xarray as xr
    >>> A = xr.DataArray([[1 + 2j, 3], [0, 1j]], dims=("row", "k"))
    >>> td.xarray.{name}({given}, dim="k").values
    {example}
    """
    letter = letter_of(dtype, exact=pairs not in (None, False))
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
