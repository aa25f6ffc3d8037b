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
    """Compute ``alpha op(A) op(B) + beta C`` on int8 units, as accurately as BLAS.

    ``td.gemm(A, B)`` is ``A @ B``, and ``td.gemm(A, B, op_b="C", diag=w)`` is
    ``A @ diag(w) @ B.conj().T``. `gemm` is meant for large matrices, of about n >=
    1000; `matmul` leaves smaller matrices to NumPy or CuPy.

    Parameters
    ----------
    A : (..., m, k) array, or (..., k, m) with op_a "T" or "C"
        NumPy, CuPy or dask array, zarr array, h5py dataset, anything that NumPy
        converts to an array, or an array of a library with DLPack, such as PyTorch. The
        dtype is float32, float64, complex64 or complex128, or promotes to one of these.
        Leading axes are batch axes, which broadcast as in NumPy.
    B : (..., k, n) array, or (..., n, k) with op_b "T" or "C"
        Like A, and on a GPU if A is.
    C : (..., m, n) array, optional
        Matrix to add; requires beta. C is only read, unless it is also `out`.
    alpha : number, optional
        Factor of the product, real if the product is. If 0, A and B are not read.
    beta : number, optional
        Factor of C, real if the product is. If 0, C is not read.
    op_a, op_b : {"N", "T", "C"}, optional
        Use the matrix as it is, transposed, or conjugate-transposed.
    diag : (k,) array, optional
        Weights w, real or complex, for ``alpha op(A) diag(w) op(B) + beta C``; all
        matrices of a batch share w. For a Hermitian result call `herk`, for a symmetric
        one `syrk`.
    out : (..., m, n) array, optional
        Array in memory, of the result's dtype, to write to and to return. It may be C,
        but must not overlap A, B or C otherwise.
    accuracy : {"componentwise", "normwise"} or float, optional
        Error bound to guarantee; see Notes. For "componentwise" (default) the data are
        checked first, because they decide how many moduli are needed.
    num_moduli : int, optional
        Number of moduli, instead of an accuracy and without a check of the data: 16
        moduli give double precision for most complex128 data, and each modulus fewer
        costs about one digit.
    method : {"2m", "hybrid", "3m", "4m", "blas", "auto"}, optional
        Algorithm for complex products: two int8 GEMMs for each modulus ("2m", default),
        or a mix of two and three GEMMs, with more moduli to choose from ("hybrid");
        "3m" and "4m" are for comparison. "blas" is NumPy's or CuPy's own product;
        "auto" takes "blas" or "2m", whichever is faster for the size; see `matmul`.
    engine : {"auto", "cpu", "cuda", "reference"}, optional
        Default: "cpu" for NumPy arrays, "cuda" for CuPy arrays. "reference" computes
        with Python's integers, slowly, for comparison.
    equilibrate : bool, optional
        Move powers of two from columns of op(A) to rows of op(B), without rounding, if
        magnitudes vary along k. Bounds then refer to the equilibrated matrices.
        Default: True if the data decide the number of moduli, otherwise False.

    Returns
    -------
    (..., m, n) array
        Array of the library of the inputs, or of the first input with DLPack. If any
        input is a dask array or stored, a lazy dask array, chunked like the rows of
        op(A) and the columns of op(B).

    Raises
    ------
    ArgumentError
        (A TypeError.) For dtypes that do not promote safely, integers beyond 2^53,
        NumPy arrays mixed with CuPy arrays, sparse or masked arrays, tensors that
        require a gradient, DataArrays, and complex factors of a real product.
    PlanError, AccuracyError
        (ValueErrors.) For shapes that do not match, C without beta, unknown values of
        options, and an accuracy out of reach.
    MemoryLimitError
        For dask arrays whose product no worker of the current client can hold.

    Warns
    -----
    AccuracyWarning
        If the data need more moduli than there are, so that NumPy or CuPy multiplies
        (for dask arrays, when they are computed); if num_moduli leaves few digits.

    See Also
    --------
    herk, syrk, her2k, syr2k : Hermitian and symmetric results, for half the work.
    matmul, tensordot, einsum : By int8 or by BLAS, whichever is faster.
    explain, plan : Accuracy and cost of a call, without making it.
    multiply_files : The same for matrices in files.
    integers.gemm, twofold.gemm, xarray.gemm : Exact; to twice the digits; by dimension.

    Notes
    -----
    Before the result is rounded to its dtype, with u = 2^-53 (single precision: 2^-24),
    a_i a row of op(A) and b_j a column of op(B)::

        "componentwise"   |error_ij| <= sqrt(k) u (|A| |B|)_ij
        "normwise"        |error_ij| <= sqrt(k) u ||a_i|| ||b_j||
        a float eps       |error_ij| <= sqrt(k) eps ||a_i|| ||b_j||

    These bounds follow from the rounding of the scaled entries, because integers are
    multiplied exactly; the documentation's page on accuracy proves them. With weights,
    the bounds hold for the scaled entries, whose rounding adds an error of at most
    ``u (|A| |w| |B|)_ij``; complex weights add up to ``sqrt(5)`` times as much.

    The result is bit-for-bit the same for every chunking, engine, schedule and number
    of workers, also in a batch, unless NumPy or CuPy multiplies. A NaN or Inf in row i
    of op(A) or column j of op(B) makes C[i, j] non-finite, and changes no other entry.

    Each modulus takes two int8 GEMMs of ``2 m n k`` operations [1]_ (one if the product
    is real), and 2 bytes for each entry of A, B and C. Matrices are scaled as in [2]_.

    References
    ----------
    .. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 2.
    .. [2] K. Ozaki, Y. Uchino, T. Imamura, "Ozaki Scheme II: A GEMM-oriented emulation
       of floating-point matrix multiplication using an integer modular technique".

    Examples
    --------
    >>> import dask.array as da, numpy as np, twom_dist as td
    >>> A = np.array([[1 + 2j, 3], [0, 1j]])
    >>> td.gemm(A, A, op_b="C")
    array([[14.+0.j,  0.-3.j],
           [ 0.+3.j,  1.+0.j]])

    Fewer digits take fewer moduli, and so less time:

    >>> A, B = td.testing.random_matrix(300, 200), td.testing.random_matrix(200, 100)
    >>> C = td.gemm(A, B)
    >>> [td.explain(td.gemm, A, B, accuracy=x).num_moduli for x in (None, 1e-8)]
    [17, 8]

    A product of chunks has the same bits:

    >>> lazy = td.gemm(da.from_array(A, chunks=100), B)
    >>> bool((lazy.compute() == C).all())
    True
    """
    ops, choice = (op_a, op_b), Choice.of(**options)
    terms = Terms(ROUTINES["gemm"], choice, ops, "full", alpha, beta)
    return Call(terms, A if diag is None else Scaled(A, diag), B, C, out)


sgemm, dgemm, cgemm, zgemm = type_by_letter(gemm, "sdcz")
