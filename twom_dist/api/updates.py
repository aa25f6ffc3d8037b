"""The rank-k and rank-2k updates and their BLAS-typed names."""

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
    """Compute the {kind} ``{formula}``, one triangle only.

    Parameters
    ----------
    A : (..., n, k) array, or (..., k, n) with op "{op}"
        Any array that `gemm` takes.
    C : (..., n, n) array, optional
        As in `gemm`. Only the triangle that is computed is read (the lower one for
        "full").
    alpha : {alpha}
    beta : {beta}, optional
        Has to be given with C.
    op : {{"N", "{op}"}}
        Use A as stored (N), or its {transpose}: ``A{t} A``.
    uplo : {{"full", "lower", "upper"}}
        Return the whole matrix (default), or one triangle with zeros in the other,
        which is not computed.
    diag : (k,) {real}array, optional
        Diagonal between both: ``alpha A diag A{t} + beta C``, with op "{op}"
        ``alpha A{t} diag A``. As in `gemm`, whose bits the triangle has that is
        computed, and at its cost for each tile of the diagonal.
    out : optional
        As in `gemm`.
    **options : optional
        As in `gemm`; only with diag is there anything to equilibrate.

    Returns
    -------
    (..., n, n) array
        {Kind} bit for bit{diagonal}, and of the kind of A, as in `gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`{complex}.

    Notes
    -----
    Costs half the int8 products of `gemm` with method 2m: herk since ``C- = C+^T``
    [1]_, syrk since it multiplies one triangle of tiles.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 5.
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
    alpha : {alpha}
    beta : {beta}, optional
        As in `gemm`.
    op : {{"N", "{op}"}}
        Use A and B as stored (N), or the {transpose} of each.
    uplo : {{"full", "lower", "upper"}}
        As in `herk`.
    out : optional
        As in `gemm`.
    **options : optional
        As in `gemm`.

    Returns
    -------
    (..., n, n) array
        {Kind} bit for bit{diagonal}, and of the kind of A and B, as in `gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `gemm`{complex}.

    Notes
    -----
    Costs the int8 products of one `gemm` instead of two: ``C = S + S{t}`` with
    ``S = alpha A B{t}``. her2k scales A and B apart, since the common scaling of [1]_
    loses accuracy where they differ in size.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 5.
    """
    terms = Terms(routine, Choice.of(**options), (op,), uplo, alpha, beta)
    return Call(terms, A, B, C, out)


herk, syrk = _rank_k
her2k, syr2k = _rank_2k
cherk, zherk = type_by_letter(herk, "cz")
ssyrk, dsyrk, csyrk, zsyrk = type_by_letter(syrk, "sdcz")
cher2k, zher2k = type_by_letter(her2k, "cz")
ssyr2k, dsyr2k, csyr2k, zsyr2k = type_by_letter(syr2k, "sdcz")
