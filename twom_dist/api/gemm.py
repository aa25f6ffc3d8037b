"""gemm, and the call that it shares with the updates of `updates`.

The BLAS-typed names are in `blas`; what a call costs is planned in `plans`.
"""

from functools import partial
from typing import Any

from ..interop.dlpack import adopt
from ..problem import problem
from ..run.compute import compute
from ..tiles.routine import ROUTINES
from ..typing import Accuracy, EngineName, Method, Op
from .signatures import as_gemm


def call(
    name: str,
    A: Any,
    B: Any = None,
    C: Any = None,
    letter: str | None = None,
    *,
    dim: str | None = None,
    **options: Any,
) -> Any:
    """Compute a call of the routine of this name, in whatever arrays it was given.

    `letter`: that of a BLAS-typed name; `options`: all other arguments.
    """
    if dim is not None:
        from ..interop import xarray

        function = partial(call, name, letter=letter, **options)
        return xarray.apply(function, ROUTINES[name], dim, options, A, B, C)
    given = {"A": A, "B": B, "C": C, "out": options.get("out")}
    (A, B, C, out), give_back = adopt(labelled=True, **given)
    if out is not None:
        options["out"] = out
    posed = problem.of_arrays(ROUTINES[name], A, B, C, letter, **options)
    return give_back(compute(posed))


@as_gemm
def gemm(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    alpha: complex = 1,
    beta: complex | None = None,
    op_a: Op = "N",
    op_b: Op = "N",
    dim: str | None = None,
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    method: Method = "2m",
    out: Any = None,
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
    pairs: bool = False,
) -> Any:
    """Compute ``alpha op(A) op(B) + beta C`` through int8 products.

    Parameters
    ----------
    A : (..., m, k) array, or (..., k, m) with op_a "T" or "C"
        A matrix, or a stack of them along axes in front, which broadcast as NumPy's do:
        each product has the bits that it has alone. NumPy array (or anything that NumPy
        converts to one), CuPy array, or dask array of either; array of another library
        that speaks DLPack, such as a PyTorch tensor; zarr array or dataset of h5py;
        DataArray of xarray, with dim. Of float32, float64, complex64 or complex128, or
        integers and booleans that promote to these. What lies on a GPU is multiplied
        with its like only.
    B : (..., k, n) array, or (..., n, k) with op_b "T" or "C"
        As A.
    C : (..., m, n) array, optional
        Not modified; the result is a new array. Not read if beta is 0.
    alpha : number
        Real if the product is real. If it is 0, A and B are not read.
    beta : number, optional
        Real if the product is real. Has to be given with C; without, it is 0.
    op_a, op_b : {"N", "T", "C"}
        Use the matrix as stored (N), transposed (T) or conjugate-transposed (C).
    dim : str, optional
        The dimension to contract, of DataArrays: ``sum_k A(i, k) B(k, j)``, wherever
        it stands. What else A and B share are stacks of matrices, label by label; of
        the rest each has one dimension.
    accuracy : {"native", "componentwise", "normwise", "exact"} or float, optional
        "native" (default): ``|dC_ij| <= sqrt(k) u (|A||B|)_ij``, with u the unit
        roundoff. A sample of rows and columns decides how many moduli that takes: 15
        to 19 for complex128 data that spread as exp(phi N(0, 1)), phi up to 2.
        "componentwise": the same bound, guaranteed, since all of them are looked at.
        "normwise": ``|dC_ij| <= sqrt(k) u ||a_i|| ||b_j||`` for all data; 15 moduli. A
        float replaces u in this bound. The rounding of the result comes on top.
        "exact": integers and booleans are multiplied without any rounding, with as few
        moduli as their dtypes and k take; the result is float64, or complex128 of
        pairs, and has to stay within 2^53 for all integers of these dtypes. Without
        alpha, beta and C.
    num_moduli : int, optional
        Number of moduli, instead of an accuracy.
    method : {"2m", "3m", "4m", "hybrid", "eisenstein", "blas", "auto"}
        Number of int8 products for each modulus of a complex product: 2 (default) or
        the cheapest mix of 2 and 3 ("hybrid"), which also goes on where the moduli of
        2m end. 3m, 4m and "eisenstein", 2m on a hexagonal lattice, are for comparison.
        "blas" calls the BLAS of NumPy or CuPy. "auto" takes the faster one of "blas"
        and "2m", by the size of each product of matrices; see `matmul`. Real products
        always take one.
    out : (..., m, n) array or "dd", optional
        Array in memory, of the dtype of the result, that is written to and returned; it
        may not overlap A, B or C. "dd": return two arrays, hi and lo, whose sum is the
        product to twice the digits of double precision: u is 2^-106 in the bounds
        above. hi is that sum rounded to double. For float64 and complex128, without
        alpha, beta and C.
    engine : {"auto", "cpu", "cuda", "reference"}
        Who multiplies. "auto" (default): "cpu" for NumPy arrays and "cuda" for CuPy
        arrays. "reference" computes in exact Python integers, slowly, for comparison.
    equilibrate : bool, optional
        Whether to multiply column l of op(A) and divide row l of op(B) by powers of
        two, exactly, where their sizes spread along k. Bounds are then relative to the
        rows and columns that result. Default: yes where the data decide about the
        moduli ("native", "componentwise"), and no with given ones.
    pairs : bool
        Whether the last axes of A and B, of length 2, hold real and imaginary parts:
        integers, which are multiplied exactly. They stay integers until they are
        encoded, in dask's graphs and in transit, too.

    Returns
    -------
    (..., m, n) array, or two of them
        NumPy for NumPy, CuPy for CuPy, a DataArray for DataArrays; else of the first
        library that an input is from, if that has ``from_dlpack``. A lazy dask array,
        chunked like the rows of op(A) and the columns of op(B), if any of the inputs is
        one, or lies on disk. All chunks are then looked at before any is multiplied,
        unless the moduli are given. In stacks of dask arrays matrices up to 2048 are
        gathered, each in one task. The bits are the same for every tiling, engine,
        number of workers and schedule. A NaN or Inf in row i of op(A) or column j of
        op(B) makes C[i, j] non-finite; all other entries are what they are without
        these rows and columns.

    Raises
    ------
    ArgumentError
        (A TypeError.) For dtypes that cannot be promoted safely, integers beyond 2^53,
        NumPy mixed with CuPy, sparse or masked arrays, tensors that require a
        gradient, complex scalars of a real product, DataArrays without dim.
    PlanError, AccuracyError
        (ValueErrors.) For shapes, dimensions or labels that do not fit, C without beta,
        option values that do not exist, an accuracy out of reach.
    MemoryLimitError
        For dask arrays whose product no worker of the current client can hold.

    Warns
    -----
    AccuracyWarning
        Where the data need more bits than any residue system has, and the product is
        the native one.

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
    return call("gemm", **locals())
