"""The drivers of rank-k and rank-2k updates: herk, syrk, her2k, syr2k."""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import checks, eager_rank
from .checks import ROUTINES, Options, Routine
from .config import bytes_setting
from .errors import PlanError
from .kernels.family import namespace
from .kernels.registry import engine_of
from .tiles.rank_k import RankSpec, scale_cell
from .tiles.spec import spec_of

__all__ = [
    "cher2k",
    "cherk",
    "csyr2k",
    "csyrk",
    "dsyr2k",
    "dsyrk",
    "her2k",
    "herk",
    "ssyr2k",
    "ssyrk",
    "syr2k",
    "syrk",
    "zher2k",
    "zherk",
    "zsyr2k",
    "zsyrk",
]


def _update(
    routine: Routine,
    letter: str | None,
    A: Any,
    B: Any,
    C: Any,
    alpha: complex,
    beta: complex,
    op: str,
    uplo: str,
    options: Options,
) -> Any:
    """Check, choose the residue system, and hand over to the eager or lazy path."""
    family = checks.common_family(A=A, B=B, C=C)
    a, b, c = (
        None if x is None else checks.as_matrix(x, name)
        for x, name in ((A, "A"), (B, "B"), (C, "C"))
    )
    if c is None and np.any(beta):
        raise PlanError(f"beta={beta} given without C; pass C, or leave beta out")
    dtype = checks.result_dtype(letter, A=a, B=b, C=c)
    alpha = checks.check_scalar(alpha, "alpha", dtype)
    beta = checks.check_scalar(beta, "beta", dtype)
    checks.check_real_scalars(routine, alpha, beta)
    checks.check_update_names(routine, op, uplo)
    n, k = checks.check_update_shapes(a, b, c, op)
    system = checks.check_options(options, dtype, k)
    op_a, op_b = routine.ops(op)
    product = spec_of(
        system,
        dtype=dtype.str,
        k=k,
        op_a=op_a,
        op_b=op_b,
        alpha=alpha,
        scaling=options.scaling,
        engine=engine_of(options.engine, family),
        cache_bytes=bytes_setting("cache-bytes"),
    )
    c = None if beta == 0 else c
    spec = RankSpec(product, routine.hermitian, routine.two, uplo, beta)  # type: ignore[arg-type]
    empty = 0 in (n, k) or alpha == 0
    if any(map(checks.is_dask, (a, b, c))):
        from . import lazy

        return lazy.update(a, b, c, spec, empty=empty)
    a, b, c = (None if x is None else x.astype(dtype, copy=False) for x in (a, b, c))
    if empty:
        zeros = namespace(a).zeros((n, n), dtype)
        return zeros if c is None else scale_cell(c, (0, 0), spec)
    return eager_rank.update(a, b, c, spec)


_PARAMETERS = """
    Parameters
    ----------
    A{also} : (n, k) array, or (k, n) with op {op!r}
        NumPy or dask arrays; dtypes as in `gemm`.
    C : (n, n) array, optional
        Never written to: the result is a new array. Only the triangle that is
        computed is read (the lower one for "full"), and nothing where beta is 0.
    alpha, beta : number
        {scalars}
    op : {{"N", {op!r}}}
        As it is, or {transposed}.
    uplo : {{"full", "lower", "upper"}}
        The whole matrix (default), or one triangle and zeros: the other one is not
        computed.
    accuracy, num_moduli, method, scaling, engine
        As in `gemm`.

    Returns
    -------
    (n, n) array
        {result} Of the family of the inputs; dask arrays are lazy.

    Raises
    ------
    TypeError, PlanError, AccuracyError
        As `gemm` does; for scalars, op or uplo that the routine does not take.

    Notes
    -----
    Implements section 5 of [1]_. {cost}

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices".
"""

_COSTS = {
    "herk": "Costs half the int8 products of `gemm` (2m): ``C- = C+^T``.",
    "syrk": "Costs the int8 products of one triangle of tiles.",
    "her2k": "Costs the int8 products of one `gemm` instead of two: ``C = Y + Y^H``.",
    "syr2k": "Costs the int8 products of one `gemm` instead of two: ``C = Y + Y^T``.",
}
_FORMULAS = {
    "herk": "alpha A A^H + beta C",
    "syrk": "alpha A A^T + beta C",
    "her2k": "alpha A B^H + conj(alpha) B A^H + beta C",
    "syr2k": "alpha A B^T + alpha B A^T + beta C",
}


def _document(routine: Routine, letter: str | None) -> str:
    """Write the numpydoc text of a routine."""
    scalars = {
        (True, False): "Real.",
        (True, True): "beta is real.",
        (False, False): "Real where the product is real.",
        (False, True): "Real where the product is real.",
    }
    kind = "Hermitian" if routine.hermitian else "Symmetric"
    dtype = f" in {checks.DTYPES[letter]}" if letter else ""
    diagonal = ", its diagonal real" if routine.hermitian else ""
    return f"Compute ``{_FORMULAS[routine.name]}``{dtype}, one triangle only.\n" + (
        _PARAMETERS.format(
            also=", B" if routine.two else "",
            op=routine.transposed,
            transposed="conjugate-transposed" if routine.hermitian else "transposed",
            scalars=scalars[routine.hermitian, routine.two],
            result=f"{kind} bit for bit{diagonal}.",
            cost=_COSTS[routine.name],
        )
    )


def _one(routine: Routine, letter: str | None) -> Callable[..., Any]:
    def update(
        A: Any,
        C: Any = None,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        op: str = "N",
        uplo: str = "full",
        accuracy: str | float | None = None,
        num_moduli: int | None = None,
        method: str = "2m",
        scaling: str = "norm",
        engine: str = "auto",
    ) -> Any:
        options = Options(accuracy, num_moduli, method, scaling, engine)
        return _update(routine, letter, A, None, C, alpha, beta, op, uplo, options)

    return _named(update, routine, letter)


def _two(routine: Routine, letter: str | None) -> Callable[..., Any]:
    def update(
        A: Any,
        B: Any,
        C: Any = None,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        op: str = "N",
        uplo: str = "full",
        accuracy: str | float | None = None,
        num_moduli: int | None = None,
        method: str = "2m",
        scaling: str = "norm",
        engine: str = "auto",
    ) -> Any:
        options = Options(accuracy, num_moduli, method, scaling, engine)
        return _update(routine, letter, A, B, C, alpha, beta, op, uplo, options)

    return _named(update, routine, letter)


def _named(
    function: Callable[..., Any], routine: Routine, letter: str | None
) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = (letter or "") + routine.name
    function.__doc__ = _document(routine, letter)
    return function


herk, zherk, cherk = (_one(ROUTINES["herk"], letter) for letter in (None, "z", "c"))
syrk, zsyrk, csyrk, dsyrk, ssyrk = (_one(ROUTINES["syrk"], t) for t in (None, *"zcds"))
her2k, zher2k, cher2k = (_two(ROUTINES["her2k"], letter) for letter in (None, "z", "c"))
syr2k, zsyr2k, csyr2k, dsyr2k, ssyr2k = (
    _two(ROUTINES["syr2k"], t) for t in (None, *"zcds")
)
