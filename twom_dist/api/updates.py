"""The rank-k and rank-2k products and their BLAS-typed names."""

from typing import Any, Unpack

from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.options import OptionsDict
from ..tiles.diagonal import Scaled
from ..tiles.routine import Routine
from ..typing import Op, Uplo
from .routine import rank_2k, rank_k, type_by_letter
from .types import Writable


@rank_k
def _rank_k(
    routine: Routine,
    A: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    uplo: Uplo = "full",
    diag: Any = None,
    out: Writable | None = None,
    **options: Unpack[OptionsDict],
) -> Call:
    """Compute the {kind} ``{formula}`` for half the work of `gemm`.

    Parameters
    ----------
    A : (..., n, k) array, or (..., k, n) with op "{op}"
        Any array that `gemm` takes.
    C : (..., n, n) array, optional
        As in `gemm`. Only the triangle that is computed is read (the lower one for
        "full").
    alpha : {alpha}, optional
    beta : {beta}, optional
        Required with C.
    op : {{"N", "{op}"}}, optional
        Use A as it is, or its {transpose}: ``A{t} A``.
    uplo : {{"full", "lower", "upper"}}, optional
        Return the whole matrix (default), or one triangle, with zeros in the other one.
    diag : (k,) {real}array, optional
        Weights w between the factors: ``alpha A diag(w) A{t} + beta C``, with op "{op}"
        ``alpha A{t} diag(w) A``.
    out : optional
        As in `gemm`.
    **options : optional
        As in `gemm`; equilibrate has an effect only with diag.

    Returns
    -------
    (..., n, n) array
        {Kind} bit for bit{diagonal}, and of the library of A, as in `gemm`.

    See Also
    --------
    gemm : Products of two matrices; describes all options.
    {partner}, {other} : With the other transpose; of two matrices.
    integers.{name}, twofold.{name}, xarray.{name}
        Exact; to twice the digits; of DataArrays.
    rank_k_files : The same for matrices in files.

    Notes
    -----
    Errors are bounded as in `gemm`. Only one triangle of tiles is computed; herk halves
    the int8 GEMMs of tiles on the diagonal, too, because ``C- = C+^T`` [1]_. With diag,
    the triangle has the bits of `gemm`, and diagonal tiles cost as much.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 5.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.array([[1 + 2j, 3], [0, 1j]])
    >>> td.{name}(A)
    {example}

    One triangle, with zeros in the other one:

    >>> bool((td.{name}(A, uplo="lower") == np.tril(td.{name}(A))).all())
    True
    """
    terms = Terms(routine, Choice.of(**options), (op,), uplo, alpha, beta)
    return Call(terms, A if diag is None else Scaled(A, diag), None, C, out)


@rank_2k
def _rank_2k(
    routine: Routine,
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op: Op = "N",
    uplo: Uplo = "full",
    out: Writable | None = None,
    **options: Unpack[OptionsDict],
) -> Call:
    """Compute the {kind} ``{formula}``.

    Parameters
    ----------
    A, B : (..., n, k) arrays, or (..., k, n) with op "{op}"
        Any arrays that `gemm` takes.
    C : (..., n, n) array, optional
        As in `herk`.
    alpha : {alpha}, optional
    beta : {beta}, optional
        Required with C.
    op : {{"N", "{op}"}}, optional
        Use A and B as they are, or the {transpose} of each.
    uplo, out, **options : optional
        As in `herk`.

    Returns
    -------
    (..., n, n) array
        {Kind} bit for bit{diagonal}, and of the library of A and B, as in `gemm`.

    See Also
    --------
    gemm : Products of two matrices; describes all options.
    {partner}, {other} : With the other transpose; of one matrix.
    integers.{name}, twofold.{name}, xarray.{name}
        Exact; to twice the digits; of DataArrays.
    rank_k_files : The same for matrices in files.

    Notes
    -----
    ``C = S + S{t}`` with ``S = alpha A B{t}``, so C takes the int8 GEMMs of one `gemm`
    instead of two. Errors of S are bounded as in `gemm`. A and B are scaled separately,
    because the common scaling of [1]_ loses accuracy if their magnitudes differ.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 5.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.array([[1 + 2j, 3], [0, 1j]])
    >>> td.{name}({given})
    {example}
    """
    terms = Terms(routine, Choice.of(**options), (op,), uplo, alpha, beta)
    return Call(terms, A, B, C, out)


herk, syrk = _rank_k
her2k, syr2k = _rank_2k
cherk, zherk = type_by_letter(herk, "cz")
ssyrk, dsyrk, csyrk, zsyrk = type_by_letter(syrk, "sdcz")
cher2k, zher2k = type_by_letter(her2k, "cz")
ssyr2k, dsyr2k, csyr2k, zsyr2k = type_by_letter(syr2k, "sdcz")
