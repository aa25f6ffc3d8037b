"""The drivers: gemm and its BLAS-typed names."""

from typing import Any

import numpy as np

from . import checks, eager
from .checks import Options
from .config import bytes_setting
from .errors import PlanError
from .kernels.family import namespace
from .kernels.registry import engine_of
from .tiles.spec import load_engine, spec_of

__all__ = ["cgemm", "dgemm", "gemm", "sgemm", "zgemm"]


def gemm(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex = 0,
    op_a: str = "N",
    op_b: str = "N",
    accuracy: str | float | None = None,
    num_moduli: int | None = None,
    method: str = "2m",
    scaling: str = "norm",
    engine: str = "auto",
) -> Any:
    """Compute ``alpha op(A) op(B) + beta C`` through int8 products.

    Parameters
    ----------
    A : (m, k) array, or (k, m) with op_a "T" or "C"
        NumPy array (or anything NumPy makes one of) or dask array; float32, float64,
        complex64, complex128, or integers and booleans that promote to these.
    B : (k, n) array, or (n, k) with op_b "T" or "C"
    C : (m, n) array, optional
        Never written to: the result is a new array. Not read where beta is 0.
    alpha, beta : number
        Real where the product is real. With alpha = 0, A and B are not read.
    op_a, op_b : {"N", "T", "C"}
        As it is, transposed, conjugate-transposed.
    accuracy : {"native", "normwise"} or float, optional
        "native" (default): about as good as the native product where magnitudes
        spread as exp(N(0, 1)); 16 moduli for complex128. All bounds are relative to
        the norms of a row and a column: wider spreads take more moduli.
        "normwise": ``|dC_ij| <= sqrt(k) u ||a_i|| ||b_j||`` whatever the data; 15
        moduli. A float puts a target in the place of u. Both apart from the rounding
        of the result.
    num_moduli : int, optional
        Number of moduli instead of an accuracy.
    method : {"2m", "3m", "4m", "hybrid", "native"}
        Int8 products per modulus of a complex product: 2, 3, 4, or the cheapest mix;
        "native" calls the BLAS of NumPy. Real products always take one.
    scaling : {"norm", "accurate"}
        "norm" (default): exponents from row norms, whatever the tiling. "accurate":
        from one int8 product of magnitudes, for comparison.
    engine : {"auto", "cpu", "reference"}

    Returns
    -------
    array
        Of the family of the inputs. NumPy: computed. dask: lazy, chunked
        ``(A.chunks[0], B.chunks[1])``. The same bits for every tiling, engine, number
        of workers and schedule. Entries whose row of op(A) or column of op(B) holds a
        NaN or an Inf are not finite; all others are as without those.

    Raises
    ------
    TypeError
        For dtypes that cannot be promoted safely, CuPy mixed with others, scalars.
    PlanError, AccuracyError
        For shapes, option values that do not exist, an accuracy out of reach.

    Notes
    -----
    Implements section 2 of [1]_ with the scaling of [2]_. Costs ``num_moduli`` times 2
    (2m) int8 products of ``2 m n k`` operations each; holds 2 bytes per modulus and
    entry of A, B and C.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices".
    .. [2] K. Ozaki, Y. Uchino, T. Imamura, "Ozaki Scheme II: A GEMM-oriented emulation
       of floating-point matrix multiplication using an integer modular technique".

    Examples
    --------
    >>> import numpy as np
    >>> import twom_dist as td
    >>> A = np.array([[1 + 2j, 3], [0, 1j]])
    >>> td.gemm(A, A, op_b="C")
    array([[14.+0.j,  0.-3.j],
           [ 0.+3.j,  1.+0.j]])
    """
    options = Options(accuracy, num_moduli, method, scaling, engine)
    return _gemm(None, A, B, C, alpha, beta, op_a, op_b, options)


def _gemm(
    letter: str | None,
    A: Any,
    B: Any,
    C: Any,
    alpha: complex,
    beta: complex,
    op_a: str,
    op_b: str,
    options: Options,
) -> Any:
    """Check, choose the residue system, and hand over to the eager or lazy path."""
    family = checks.common_family(A=A, B=B, C=C)
    a, b = checks.as_matrix(A, "A"), checks.as_matrix(B, "B")
    c = None if C is None else checks.as_matrix(C, "C")
    if c is None and np.any(beta):
        raise PlanError(f"beta={beta} given without C; pass C, or leave beta out")
    dtype = checks.result_dtype(letter, A=a, B=b, C=c)
    alpha = checks.check_scalar(alpha, "alpha", dtype)
    beta = checks.check_scalar(beta, "beta", dtype)
    left, right = checks.check_op(op_a, "op_a"), checks.check_op(op_b, "op_b")
    m, n, k = checks.check_product_shapes(a, b, c, left, right)
    if beta == 0:
        c = None
    system = checks.check_options(options, dtype, k)
    spec = spec_of(
        system,
        dtype=dtype.str,
        k=k,
        op_a=left,
        op_b=right,
        alpha=alpha,
        beta=beta,
        scaling=options.scaling,
        engine=engine_of(options.engine, family),
        cache_bytes=bytes_setting("cache-bytes"),
    )
    empty = 0 in (m, n, k) or alpha == 0
    if any(map(checks.is_dask, (a, b, c))):
        from . import lazy

        return lazy.multiply(a, b, c, spec, empty=empty)
    if empty:
        if c is None:
            return namespace(a).zeros((m, n), dtype)
        c = c.astype(dtype, copy=False)
        return load_engine(spec).scale_and_add(None, 0, beta, c, dtype)
    return eager.multiply(
        a.astype(dtype, copy=False),
        b.astype(dtype, copy=False),
        None if c is None else c.astype(dtype, copy=False),
        spec,
    )


def _typed(letter: str) -> Any:
    """Make the BLAS-typed driver of a letter."""
    dtype = checks.DTYPES[letter]

    def routine(
        A: Any,
        B: Any,
        C: Any = None,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        op_a: str = "N",
        op_b: str = "N",
        accuracy: str | float | None = None,
        num_moduli: int | None = None,
        method: str = "2m",
        scaling: str = "norm",
        engine: str = "auto",
    ) -> Any:
        options = Options(accuracy, num_moduli, method, scaling, engine)
        return _gemm(letter, A, B, C, alpha, beta, op_a, op_b, options)

    routine.__name__ = routine.__qualname__ = f"{letter}gemm"
    routine.__doc__ = f"""Compute ``alpha op(A) op(B) + beta C`` in {dtype}.

    The BLAS-typed form of `gemm`, with the same parameters and options: every input is
    promoted to {dtype} where NumPy's "safe" casting allows it.

    Parameters
    ----------
    A, B : array
        As in `gemm`.
    C : array, optional
        As in `gemm`.
    alpha, beta : number
        As in `gemm`.
    op_a, op_b : {{"N", "T", "C"}}
        As in `gemm`.
    accuracy, num_moduli, method, scaling, engine
        As in `gemm`.

    Returns
    -------
    array
        Of dtype {dtype} and of the family of the inputs.

    Raises
    ------
    TypeError
        If an input cannot be cast safely, complex to real for example.

    See Also
    --------
    gemm : The parameters in full.
    """
    return routine


sgemm = _typed("s")
dgemm = _typed("d")
cgemm = _typed("c")
zgemm = _typed("z")
