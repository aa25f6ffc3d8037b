"""dot and vecdot, like NumPy's."""

from string import ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np

from ..errors import PlanError
from .arrays import as_operands
from .functions import einsum, matmul
from .intercept import contraction
from .subscripts import read_each, tensordot_terms


@contraction
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Sum products over the last axis of a and the second last of b, like numpy.dot.

    Parameters
    ----------
    a, b : arrays
        As in `twom_dist.matmul`. A vector has one axis; a number multiplies.
    out : array, optional
        As in `twom_dist.matmul`.

    Returns
    -------
    array
        As in `twom_dist.matmul`; a number for two vectors.

    See Also
    --------
    twom_dist.matmul, twom_dist.einsum : With options, such as an accuracy.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> td.numpy.dot(np.arange(3.0), np.eye(3))
    array([0., 1., 2.])
    """
    # Python's numbers have a dtype of their own here, as in NumPy's dot alone.
    a, b = (
        np.asarray(x)[()] if isinstance(x, complex | float | int) else x for x in (a, b)
    )
    if not (hasattr(a, "shape") and hasattr(b, "shape")):
        (a, b), out, give_back = as_operands((a, b), ("a", "b"), out)
        return give_back(dot(a, b, out))
    left, right = len(a.shape), len(b.shape)
    if not (left and right):
        return np.multiply(a, b, out=out)
    if left > 1 and right > 2:
        # einsum alone would broadcast an axis of one entry.
        tensordot_terms(a.shape, b.shape, (-1, -2))
        rows, others = ascii_lowercase[: left - 1], ascii_uppercase[: right - 1]
        term = f"{others[:-1]}z{others[-1]}"
        return einsum(f"{rows}z,{term}->{rows}{others}", a, b, out=out)
    return matmul(a, b, out=out)


@contraction
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Sum products of the conjugate of x1 and x2 over an axis, like numpy.vecdot.

    Parameters
    ----------
    x1, x2 : arrays
        As in `twom_dist.matmul`. The other axes are broadcast.
    axis : int, optional
        The axis to sum over, equally long in both. Default: the last one.

    Returns
    -------
    array
        As in `twom_dist.matmul`, without the axis.

    See Also
    --------
    dot, twom_dist.einsum : Without a conjugate; by letters.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> td.numpy.vecdot(np.array([[1j, 2], [3, 4]]), np.array([1, 1]))
    array([2.-1.j, 7.+0.j])
    """
    (a, b), _, give_back = as_operands((x1, x2), ("x1", "x2"))
    ends = (read_each(axis, x.ndim, name)[0] for x, name in ((a, "x1"), (b, "x2")))
    a, b = (np.moveaxis(x, end, -1) for x, end in zip((a, b), ends, strict=True))
    if a.shape[-1] != b.shape[-1]:
        text = (
            f"axis {axis} of x1 has {a.shape[-1]} entries, and that of x2 {b.shape[-1]}"
        )
        raise PlanError(text, "", "shapes")
    left = a.conj() if a.dtype.kind == "c" else a
    return give_back(matmul(left[..., None, :], b[..., None])[..., 0, 0][()])
