"""gemm and its BLAS-typed names."""

from typing import Any, Unpack

from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.options import OptionsDict
from ..tiles.diagonal import Scaled
from ..tiles.routine import ROUTINES
from ..typing import Op
from .routine import of_two, type_by_letter
from .types import Writable


@of_two
def gemm(  # numpydoc ignore=PR01,PR02
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op_a: Op = "N",
    op_b: Op = "N",
    diag: Any = None,
    out: Writable | None = None,
    **options: Unpack[OptionsDict],
) -> Call:
    """Compute ``alpha op(A) op(B) + beta C`` through int8 products.

    It is for large matrices: small ones take longer than in NumPy or CuPy. Where sizes
    vary, give method="auto", or call `matmul`.

    Parameters
    ----------
    A : (..., m, k) array, or (..., k, m) with op_a "T" or "C"
        A matrix, or a stack of them along axes in front, which broadcast as NumPy's do:
        each product has the bits that it has alone. NumPy array (or anything that NumPy
        converts to one), CuPy array, or dask array of either; array of another library
        that speaks DLPack, such as a PyTorch tensor; zarr array or dataset of h5py.
        Of float32, float64, complex64 or complex128, or integers and booleans that
        promote to these. What lies on a GPU is multiplied with its like only.
        `twom_dist.xarray` has the routines for DataArrays.
    B : (..., k, n) array, or (..., n, k) with op_b "T" or "C"
        As A.
    C : (..., m, n) array, optional
        Not modified unless it is `out`; the result is a new array. Not read if beta is
        0.
    alpha : number
        Real if the product is real. If it is 0, A and B are not read.
    beta : number, optional
        Real if the product is real. Has to be given with C; without, it is 0.
    op_a, op_b : {"N", "T", "C"}
        Use the matrix as stored (N), transposed (T) or conjugate-transposed (C).
    diag : (k,) array, optional
        Diagonal between both: ``alpha op(A) diag op(B) + beta C``, of real or complex
        numbers, such as the weights of a quadrature. It promotes as a matrix does. The
        bits are those of the product with ``op(A) * diag`` in place of op(A), which is
        made tile by tile (CuPy arrays and native products: whole). Bounds are those of
        the scaled entries; their rounding adds ``u (|A| |diag| |B|)_ij``, with a
        complex diag ``sqrt(5)`` times as much. Stacks share it. So ``A diag A^H`` is
        not Hermitian bit for bit here, nor ``A diag A^T`` symmetric: `herk` and `syrk`
        take diag as well, give just that, and take half the products.
    out : (..., m, n) array, optional
        Array in memory, of the dtype of the result, that is written to and returned; it
        may not overlap A, B or C, but it may be C, which is then copied for the time of
        the call. `twom_dist.twofold` returns two arrays instead, with twice the digits.
    accuracy : {"componentwise", "normwise"} or float, optional
        "componentwise" (default): ``|dC_ij| <= sqrt(k) u (|A||B|)_ij``, with u the unit
        roundoff. All entries decide how many moduli that takes: 15 to 19 for complex128
        data that spread as exp(phi N(0, 1)), phi up to 2.
        "normwise": ``|dC_ij| <= sqrt(k) u ||a_i|| ||b_j||`` for all data; 15 moduli. A
        float replaces u in this bound. The rounding of the result comes on top.
        `twom_dist.integers` multiplies integers without any.
    num_moduli : int, optional
        Number of moduli, instead of an accuracy.
    method : {"2m", "3m", "4m", "hybrid", "eisenstein", "blas", "auto"}
        Number of int8 products for each modulus of a complex product: 2 (default) or
        the cheapest mix of 2 and 3 ("hybrid"), which also goes on where the moduli of
        2m end. 3m, 4m and "eisenstein", 2m on a hexagonal lattice, are for comparison.
        "blas" calls the BLAS of NumPy or CuPy. "auto" takes the faster one of "blas"
        and "2m", by the size of each product of matrices; see `matmul`. Real products
        always take one.
    engine : {"auto", "cpu", "cuda", "reference"}
        Who multiplies. "auto" (default): "cpu" for NumPy arrays and "cuda" for CuPy
        arrays. "reference" computes in exact Python integers, slowly, for comparison.
    equilibrate : bool, optional
        Whether to multiply column l of op(A) and divide row l of op(B) by powers of
        two, exactly, where their sizes spread along k. Bounds are then relative to the
        rows and columns that result. Default: yes where the entries decide about the
        moduli ("componentwise"), and no with given ones.

    Returns
    -------
    (..., m, n) array
        NumPy for NumPy, CuPy for CuPy; else of the first library that an input is from,
        if that has ``from_dlpack``. A lazy dask array, chunked like the rows of op(A)
        and the columns of op(B), if any of the inputs is one, or lies on disk. All
        chunks are then looked at before any is multiplied, unless the moduli are given.
        In stacks of dask arrays matrices up to 2048 are gathered, each in one task. The
        bits are the same for every tiling, engine, number of workers and schedule. A
        NaN or Inf in row i of op(A) or column j of op(B) makes C[i, j] non-finite; all
        other entries are what they are without these rows and columns.

    Raises
    ------
    ArgumentError
        (A TypeError.) For dtypes that cannot be promoted safely, integers beyond 2^53,
        NumPy mixed with CuPy, sparse or masked arrays, tensors that require a
        gradient, complex scalars of a real product, DataArrays.
    PlanError, AccuracyError
        (ValueErrors.) For shapes that do not fit, C without beta, option values that
        do not exist, an accuracy out of reach.
    MemoryLimitError
        For dask arrays whose product no worker of the current client can hold.

    Warns
    -----
    AccuracyWarning
        Where the data need more bits than any residue system has, and the product is
        the native one, whose last bits depend on chunks, BLAS and threads. Dask arrays
        warn when they are computed.

    Notes
    -----
    Implements section 2 of [1]_ with the scaling of [2]_. Costs 2 (2m) int8 products of
    ``2 m n k`` operations for each modulus, and 2 bytes of memory for each modulus and
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
    ops, choice = (op_a, op_b), Choice.of(**options)
    terms = Terms(ROUTINES["gemm"], choice, ops, alpha=alpha, beta=beta)
    return Call(terms, A if diag is None else Scaled(A, diag), B, C, out)


sgemm, dgemm, cgemm, zgemm = type_by_letter(gemm, "sdcz")
