"""The public functions. See `pair` for what they do to two operands."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..api.types import as_contraction
from ..auto.choose import is_small
from ..errors import PlanError
from ..kernels.family import deliver
from ..moduli.accuracy import AUTO_METHOD
from ..problem.arguments import checked
from ..problem.choice import Choice
from ..problem.matrices import check_out
from ..problem.options import OptionsDict
from .arrays import as_operands, reduce_to
from .intercept import compute_or_trace, contraction
from .network import contract_network, find_path
from .pair import are_plain, contract_pair, differ_surely, multiply_plain
from .subscripts import (
    Term,
    find_sizes,
    matmul_terms,
    parse,
    read_axes,
    read_each,
    tensordot_terms,
    write_letters,
)

_BY_SIZE = OptionsDict(method=AUTO_METHOD)


@as_contraction
@contraction
def matmul(
    x1: Any, x2: Any, /, *, out: Any = None, **options: Unpack[OptionsDict]
) -> Any:
    """Multiply matrices, vectors and batches of matrices, like numpy.matmul.

    Parameters
    ----------
    x1, x2 : (..., m, k) and (..., k, n) arrays, or vectors of k entries
        NumPy, CuPy or dask arrays, anything that NumPy converts to one, or arrays of
        other libraries with DLPack. Leading axes are broadcast. NumPy, CuPy or dask
        multiplies integers and booleans; for exact products see `integers.matmul`.
    out : array, optional
        Array in memory, of the shape and dtype of the result, to write to and to
        return. It must not overlap x1 or x2.
    **options : optional
        As in `gemm`, but by default method is "auto".

    Returns
    -------
    array
        Of the library of x1 and x2; lazy for dask arrays.

    See Also
    --------
    twom_dist.gemm : On int8 units only, with factors, weights and transposes.
    einsum, tensordot : Other contractions, by letters and by axes.
    twom_dist.tune : Measure on this machine which products are faster.

    Notes
    -----
    method="auto" is "2m" if that was measured to be faster than the library's own
    product for the dtype, the chip of this process and the size of each product, the
    harmonic mean of m, n and k; otherwise, or if nothing was measured, it
    is "blas". If an accuracy or num_moduli is given, "auto" is "2m".

    On int8 units, if x2 is the transpose or the conjugate transpose of x1 (the same
    memory, or the same dask array), the bits are those of `syrk` or `herk`, which take
    half the int8 GEMMs and do not equilibrate. To find this out, entries of CuPy arrays
    are compared only if the data are checked anyway and x2 is stored like
    ``x1.conj()``.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.arange(12.0).reshape(2, 2, 3)
    >>> td.matmul(A, [1, 0, 1])
    array([[ 2.,  8.],
           [14., 20.]])
    >>> td.matmul(A[0], A[1].T, method="2m")  # on int8 units, small as it is
    array([[ 23.,  32.],
           [ 86., 122.]])
    """
    plain = out is None and are_plain(x1, x2)
    # Another text of these letters takes the longer way.
    alone = len(options) == 1 and options.get("method") is AUTO_METHOD
    if (
        plain
        and (alone or not options)
        and type(x1) is np.ndarray
        and is_small(x1.dtype, (*x1.shape[-2:], x2.shape[-1]))
    ):
        return np.matmul(x1, x2)
    choice = Choice.of(**_BY_SIZE | options)
    if plain and differ_surely(x1, x2, waits=choice.data_driven):
        return multiply_plain(x1, x2, choice)
    return compute_or_trace(_matmul, (choice, out), "matmul", x1, x2)


def _matmul(choice: Choice, out: Any, x1: Any, x2: Any) -> Any:
    (a, b), out, give_back = as_operands((x1, x2), ("x1", "x2"), out)
    terms, output = matmul_terms(a.shape, b.shape)
    _check_out(out, (a, b), terms, output)
    native = partial(np.matmul, a, b)
    found = contract_pair(a, b, terms, output, choice, native=native)
    return give_back(_deliver(found, out))


@as_contraction
@contraction
def tensordot(a: Any, b: Any, axes: Any = 2, **options: Unpack[OptionsDict]) -> Any:
    """Sum products over axes of two arrays, like numpy.tensordot.

    Parameters
    ----------
    a, b : arrays
        As in `matmul`.
    axes : int, or two sequences of int, optional
        Number of axes to contract, the last of a with the first of b (default: 2); or
        the axes of a and of b to contract.
    **options : optional
        As in `matmul`; m, n and k are the numbers of entries along the other axes of a,
        along the other axes of b, and along the contracted axes.

    Returns
    -------
    array
        With the axes of a and then of b that are not contracted; otherwise as in
        `matmul`. If no axes are contracted, entries are multiplied without a method.

    See Also
    --------
    einsum, matmul : Contractions by letters; of the last two axes.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.arange(24.0).reshape(2, 3, 4)
    >>> td.tensordot(A, A, axes=([0, 2], [0, 2]))[0]
    array([ 748.,  988., 1228.])
    """
    choice = Choice.of(**_BY_SIZE | options)
    return compute_or_trace(_tensordot, (choice,), "tensordot", a, b, axes)


def _tensordot(choice: Choice, a: Any, b: Any, axes: Any) -> Any:
    (a, b), _, give_back = as_operands((a, b), ("a", "b"))
    # dask 2026.8 announces wrong chunks where an axis is counted from the end.
    axes = read_axes(axes, a.ndim, b.ndim)
    terms, output = tensordot_terms(a.shape, b.shape, axes)
    native = partial(np.tensordot, a, b, axes)
    found = contract_pair(a, b, terms, output, choice, native=native)
    return give_back(np.asarray(found) if isinstance(found, np.generic) else found)


@contraction
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: Any = None,
    optimize: Any = "auto",
    **options: Unpack[OptionsDict],
) -> Any:
    """Sum products of operands over letters of their axes, like numpy.einsum.

    Parameters
    ----------
    subscripts : str
        Letters of the axes of each operand and, after "->", of the result. An ellipsis
        stands for axes that are broadcast. NumPy's other form, with lists of labels, is
        accepted as well: ``einsum(A, [0, 1], B, [1, 2], [0, 2])``.
    *operands : arrays
        As in `matmul`.
    out : array, optional
        As in `matmul`.
    optimize : str, path, bool or optimizer, optional
        For three or more operands: a path, or the name of an opt_einsum strategy or one
        of its optimizers, as in ``opt_einsum.contract_path``; ("greedy", 1e6) limits
        the entries of each product. False contracts one operand after the other.
    **options : optional
        As in `tensordot`, for each product of two operands.

    Returns
    -------
    array
        As in `matmul`. For one operand and without out, the result may be a view.

    See Also
    --------
    matmul, tensordot : Contractions of the last two axes; by axes.
    twom_dist.gemm, twom_dist.herk : Products with weights between both matrices.

    Notes
    -----
    Two operands become one product of matrices, or a batch of products: letters that
    both operands have are summed over if the result lacks them, and are batches
    otherwise. An operand is copied only if no view of it is a matrix. NumPy, CuPy or
    dask sums over letters that only one operand has, and multiplies entries if nothing
    is summed; the bits of such sums may depend on chunks.

    On int8 units, "ik,k,kj->ij" is one `gemm` with weights, also as part of a longer
    path that is found here. If B is A^T, or A^H with real weights, as in `matmul`, this
    product is `syrk` or `herk`. Several vectors of weights are first multiplied with
    each other, in the precision of the result. A weight on a letter of the result, as
    in "i,ik,kj->ij", scales an operand or the result.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.arange(6.0).reshape(2, 3)
    >>> td.einsum("ij,kj->ik", A, A)
    array([[ 5., 14.],
           [14., 50.]])
    >>> td.einsum("ij,j,kj->ik", A, [1, 0, 2], A)  # weights between the factors
    array([[ 8., 20.],
           [20., 59.]])
    """
    choice = Choice.of(**_BY_SIZE | options)
    arrays: Sequence[Any] = operands
    if not isinstance(subscripts, str):
        subscripts, arrays = write_letters((subscripts, *operands))
    given = choice, out, optimize
    return compute_or_trace(_einsum, given, "einsum", subscripts, *arrays)


def _einsum(choice: Choice, out: Any, optimize: Any, text: str, *operands: Any) -> Any:
    names = [f"operand {i}" for i, _ in enumerate(operands, 1)]
    arrays, out, give_back = as_operands(operands, names, out)
    terms, output = parse(text, tuple(x.ndim for x in arrays))
    # Before anything is summed, as NumPy does.
    dtype = np.result_type(*(x.dtype for x in arrays))
    _check_out(out, arrays, terms, output)
    if len(arrays) < 3 and optimize != "auto":
        find_path(terms, output, tuple(x.shape for x in arrays), optimize)
    if len(arrays) == 1:
        found = reduce_to(arrays[0], terms[0], output)
    elif len(arrays) == 2:
        a, b = (x.astype(dtype, copy=False) for x in arrays)
        found = contract_pair(a, b, (terms[0], terms[1]), output, choice)
    else:
        found = contract_network(arrays, terms, output, optimize, choice, dtype)
    return give_back(_deliver(found, out))


def _check_out(out: Any, arrays: Any, terms: tuple[Term, ...], output: Term) -> None:
    if out is not None:
        sizes = find_sizes(terms, tuple(x.shape for x in arrays))
        dtype = np.result_type(*(x.dtype for x in arrays))
        check_out(out, arrays, tuple(sizes[x] for x in output), dtype)


def _deliver(found: Any, out: Any) -> Any:
    """Return what was found, in `out` if there is one; NumPy's 0-d array as a number.

    That is what numpy.matmul and numpy.einsum return; numpy.tensordot and
    numpy.transpose return an array.
    """
    if out is None and isinstance(found, np.ndarray) and found.ndim == 0:
        return found[()]
    return deliver(found, out)


@checked
def transpose(a: Any, axes: Any = None) -> Any:
    """Permute the axes of an array, like numpy.transpose.

    Parameters
    ----------
    a : array
        As in `matmul`.
    axes : sequence of int, optional
        The axis of a for each axis of the result. Default: all in reverse.

    Returns
    -------
    array
        A view, or for a dask array a lazy array.

    See Also
    --------
    einsum : Contract and permute at once.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> td.transpose(np.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    (a,), _, give_back = as_operands((a,), ("a",))
    if axes is None:
        return give_back(a.transpose())
    order = read_each(axes, a.ndim, "a")
    if len(order) != a.ndim:
        text = f"axes={axes!r} names {len(order)}, but a has {a.ndim} axes"
        raise PlanError(text, "Give each axis once", "axes")
    return give_back(a.transpose(order))
