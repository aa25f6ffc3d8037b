"""Layouts of matrices in memory that the kernels take."""

from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...typing import Array

# An operand as (matrices, m, n, parts), and whether it is that transposed.
Entries = tuple[Array, bool]
# Native types of the parts of numbers, by the character of their type.
REAL = {x: np.dtype(x.lower()) for x in "fdFD"}


def straighten(x: Array) -> tuple[Array, bool]:
    """Return C-contiguous matrices, and whether they are those of x transposed."""
    if x.dtype.byteorder == ">":
        x = x.astype(x.dtype.newbyteorder("="))
    if x.flags.c_contiguous:
        return x, False
    turned = x.T if x.ndim == 2 else x.swapaxes(-1, -2)
    if turned.flags.c_contiguous:
        return turned, True
    return np.ascontiguousarray(x), False


def flat_parts(x: Array) -> Array:
    """View (..., m, n) complex as (..., m, 2n) real."""
    return read_only(x.view(x.real.dtype))


def whole_rows(x: Array) -> Array:
    """View (components, m, n), a part of an array, with all of the rows around it.

    It may end past the array, so that only the first n of each row may be touched.
    """
    if x.flags.c_contiguous:
        return x
    apart, rows, _ = x.strides
    shape = x.shape[0], max(x.shape[1], apart // rows), rows // x.itemsize
    return as_strided(x, shape, (shape[1] * rows, rows, x.itemsize))


def flat_rows(x: Array, shape: tuple[int, int, int], real: np.dtype[Any]) -> Array:
    """View numbers as (components, m, n parts) real ones, or more by `whole_rows`."""
    if not x.flags.c_contiguous:
        return whole_rows(x.reshape(*shape[:2], x.shape[-1])).view(real)
    flat: Array = np.ndarray(shape, real, x)
    return flat


def as_parts(x: Array) -> Array:
    """View a C-contiguous array as (..., parts) of its real type."""
    parts = 2 if np.iscomplexobj(x) else 1
    return x.view(x.real.dtype).reshape(*x.shape, parts)


def list_entries(x: Array) -> Entries:
    """View an input (..., m, n) as (matrices, m, n, parts), or as its transpose.

    Tell whether it is that.
    """
    x, across = straighten(x)
    dtype, shape = x.dtype, x.shape
    count = 1 if len(shape) == 2 else prod(shape[:-2])
    whole = count, *shape[-2:], 2 if dtype.kind == "c" else 1
    # By one call, not by a view of a view: small products take all the time for these.
    view: Array = np.ndarray(whole, REAL[dtype.char], x)
    view.setflags(write=False)
    return view, across


def tall(x: Array) -> Array:
    """View a stack (..., m, n) as all the rows of its matrices."""
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


def as_stack(x: Array) -> Array:
    """View (..., m, n) as (matrices, m, n)."""
    return x.reshape(prod(x.shape[:-2]), *x.shape[-2:])


def read_only(x: Array) -> Array:
    """View an input as read-only, as received blocks are: one type for the kernels."""
    view = x.view()
    view.setflags(write=False)
    return view
