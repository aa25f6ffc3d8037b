"""matmul and einsum with NumPy's options beside ours: casts, layouts and axes."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ..api.types import as_contraction
from ..errors import ArgumentError, PlanError, shown
from ..problem.choice import choose
from ..problem.matrices import is_dask
from ..problem.options import OptionsDict
from . import functions
from .arrays import as_operands, promote
from .intercept import contraction
from .subscripts import read_each, write_letters

_RULES = ("no", "equiv", "safe", "same_kind", "unsafe")
_ORDERS = ("K", "C", "F", "A")


@as_contraction
@contraction
def matmul(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    axes: Any = None,
    **options: Unpack[OptionsDict],
) -> Any:
    """Multiply as `twom_dist.matmul` does, with NumPy's options as well.

    Parameters
    ----------
    x1, x2 : arrays
        As in `twom_dist.matmul`.
    out : array, optional
        As in `twom_dist.matmul`.
    dtype : dtype, optional
        That both operands are converted to. Default: the promoted one.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        The conversions that are allowed, as in `numpy.can_cast`.
    order : {"K", "C", "F", "A"}
        The layout of a result in memory: of rows ("C"), of columns ("F"), of columns
        if both operands are such ("A"), or as it is computed ("K").
    axes : list of tuples, optional
        The axes of the matrices in x1, in x2 and in the result. Default: the last ones.
    **options : optional
        As in `twom_dist.matmul`.

    Returns
    -------
    array
        As in `twom_dist.matmul`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `twom_dist.matmul`, and for a conversion that is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from twom_dist import numpy as xp
    >>> xp.matmul([[1, 2]], [3, 4], dtype="float32")
    array([11.], dtype=float32)
    """
    if dtype is axes is None and casting == "same_kind" and order == "K":
        return functions.matmul(x1, x2, out=out, **options)
    names = "x1", "x2"
    arrays, view, give_back = as_operands((x1, x2), names, out)
    a, b = _convert(arrays, names, dtype, casting)
    to: list[int] = []
    if axes is not None:
        (first, second, to) = _read_axes(axes, a.ndim, b.ndim)
        a, b = _to_end(a, first), _to_end(b, second)
        view = None if view is None else _to_end(view, to)
    found = functions.matmul(a, b, out=view, **options)
    if view is not None:
        return out
    if to:
        found = np.moveaxis(found, range(-len(to), 0), to)
    return give_back(_lay(found, order, arrays))


def _read_axes(axes: Any, left: int, right: int) -> list[list[int]]:
    """Read the axes of matrices, or of vectors, in both operands and the result."""
    own = [min(2, left), min(2, right)]
    own.append(sum(own) - 2)
    given = list(axes) if np.iterable(axes) else []
    ndim = max(left - own[0], right - own[1]) + own[2]
    if len(given) != 3:
        problem = f"axes={shown(axes)} has no entry for x1, for x2 and for the result"
        raise ArgumentError(problem, "Give [(-2, -1), (-2, -1), (-2, -1)]", "axes")
    found = []
    names = ("x1", "x2", "the result")
    for entry, count, size, name in zip(
        given, own, (left, right, ndim), names, strict=True
    ):
        read = read_each(entry, size, name)
        if len(read) != count:
            problem = f"axes={shown(axes)} has {len(read)} for {name}, and not {count}"
            raise PlanError(problem, "", "axes")
        found.append(read)
    return found


def _to_end(x: Any, axes: Sequence[int]) -> Any:
    return np.moveaxis(x, axes, range(-len(axes), 0)) if axes else x


@contraction
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    casting: str = "safe",
    order: str = "K",
    optimize: Any = "auto",
    **options: Unpack[OptionsDict],
) -> Any:
    """Sum products as `twom_dist.einsum` does, with NumPy's options as well.

    Parameters
    ----------
    subscripts : str
        As in `twom_dist.einsum`, and lists of numbers as well.
    *operands : arrays
        As in `twom_dist.einsum`.
    out : array, optional
        As in `twom_dist.einsum`.
    dtype, casting, order : optional
        As in `matmul`.
    optimize : optional
        As in `twom_dist.einsum`.
    **options : optional
        As in `twom_dist.einsum`.

    Returns
    -------
    array
        As in `twom_dist.einsum`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `twom_dist.einsum`, and for a conversion that is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from twom_dist import numpy as xp
    >>> xp.einsum("i,i->", [1, 2], [3, 4], dtype="float64")
    np.float64(11.0)
    """
    if dtype is None and casting == "safe" and order == "K":
        more = {"out": out, "optimize": optimize, **options}
        return functions.einsum(subscripts, *operands, **more)
    arrays: Sequence[Any] = operands
    if not isinstance(subscripts, str):
        subscripts, arrays = write_letters((subscripts, *operands))
    names = [f"operand {i}" for i, _ in enumerate(arrays, 1)]
    arrays, view, give_back = as_operands(arrays, names, out)
    converted = _convert(arrays, names, dtype, casting)
    more = {"out": view, "optimize": optimize, **options}
    found = functions.einsum(subscripts, *converted, **more)
    return out if view is not None else give_back(_lay(found, order, arrays))


def _convert(
    arrays: Sequence[Any], names: Sequence[str], dtype: Any, casting: Any
) -> list[Any]:
    """Convert operands to a dtype, if a rule of casting allows it."""
    rule = choose("casting", casting, _RULES)
    try:
        wanted = np.result_type(*arrays) if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        problem = f"there is no dtype {shown(dtype)}"
        raise ArgumentError(problem, "Use one of NumPy", "dtype") from None
    for x, name in zip(arrays, names, strict=True):
        if not np.can_cast(x.dtype, wanted, rule):
            problem = f"{name} has dtype {x.dtype}, which is not cast to {wanted}"
            remedy = f"casting={rule!r} excludes it: give 'unsafe', or use astype"
            raise ArgumentError(problem, remedy, "dtype")
    return [promote(x, wanted.newbyteorder("=")) for x in arrays]


def _lay(found: Any, order: Any, operands: Sequence[Any]) -> Any:
    """Return a result in memory in the layout that is asked for."""
    wanted = choose("order", order, _ORDERS)
    if wanted == "K" or is_dask(found) or not getattr(found, "ndim", 0):
        return found
    if wanted == "A":
        wanted = "F" if all(x.flags.f_contiguous for x in operands) else "C"
    return found.astype(found.dtype, order=wanted, copy=False)
