"""Gaussian integers as pairs: the last axis holds their real and imaginary parts.

A NumPy array of pairs, or a dask array of such blocks, is viewed with one axis less and
a dtype of two fields, which no tiling can split; tiles become complex when they are
encoded. CuPy has no such dtypes, so its arrays are converted at once, except samples of
8 bits, which are viewed as words of 16 bits.
"""

from typing import Any

import numpy as np

from ..errors import ArgumentError, PlanError
from ..kernels.family import Family, empty_block, family_of, namespace
from ..tiles.blocks import check_declared
from ..tiles.integers import pair_dtype, working_dtype
from .call import Terms
from .choice import Exact
from .integer_valued import find_magnitude
from .matrices import Header, as_matrix, dask_array, is_dask


def check_parts(x: Any, name: str) -> None:
    """Raise unless the last axis holds two parts."""
    shape = tuple(x.shape)
    if len(shape) < 3 or shape[-1] != 2:
        given = f"{name} has shape {shape}"
        problem = f"{given}, but with pairs=True its last axis holds re and im"
        remedy = "Use numpy.stack((re, im), axis=-1)"
        if len(shape) == 2 and shape[-1] == 2:
            problem = f"{given}, but a matrix of pairs has (rows, columns, 2)"
            remedy = "Give a row as x[numpy.newaxis], a column as x[:, numpy.newaxis]"
        raise PlanError(problem, remedy, "pairs-shape")


def check_told(terms: Terms, *matrices: Any) -> None:
    """Refuse stacks of 8 or 16 bits that may be pairs, unless that was said.

    As a stack of matrices with two columns they would take very long.
    """
    if matrices[0].dtype.kind not in "iu":
        return  # most are not, and calls on small matrices are short
    given = [x for x in matrices if x is not None]
    target = terms.choice.target
    if isinstance(target, Exact) and target.pairs is not None:
        return
    for x in given:
        if not is_stack(x) or x.dtype.kind not in "iu":
            return
        if x.shape[-1] != 2 or x.dtype.itemsize > 2:
            return
    remedy = "Give pairs=True if so, or pairs=False for matrices of two columns"
    if not isinstance(target, Exact):
        remedy = (
            f"If so, call td.integers.{terms.routine.name}(..., pairs=True); give "
            "matrices of two columns as A.astype(float)"
        )
    problem = (
        f"A is {given[0].dtype} of shape {tuple(given[0].shape)}: does the last axis "
        "hold real and imaginary parts?"
    )
    raise ArgumentError(problem, remedy, "pairs")


_OURS = np.ndarray, Header  # not as a union, which would be made anew for each call


def is_stack(x: Any) -> bool:
    """Tell arrays with axes in front, those of files as well."""
    if isinstance(x, _OURS) or family_of(x) == "cupy" or is_dask(x):
        return len(x.shape) > 2
    try:
        return len(x.shape) > 2 and isinstance(x.dtype, np.dtype)
    except Exception:  # of a closed file anything; who reads it will tell
        return False


def header_of(x: Any, name: str) -> Any:
    """Describe (..., rows, columns, 2) integers as a matrix of pairs, as files are."""
    if x.dtype.names is not None:
        return x
    if x.dtype.kind == "c":
        problem = f"{name} is complex already, and pairs are of integers"
        remedy = "Leave out pairs; complex numbers of whole parts are taken as they are"
        raise ArgumentError(problem, remedy, "pairs-dtype")
    if x.dtype.kind not in "biu":
        raise ArgumentError(
            f"{name} has dtype {x.dtype}, but pairs are of integers",
            "Convert it with astype, or call td.gemm, td.herk or the like with complex "
            "numbers: x.astype('f4').view('c8')[..., 0]",
            "pairs-dtype",
        )
    check_parts(x, name)
    return Header(x.shape[:-1], x.dtype, find_magnitude(x))


def as_pairs(x: Any, name: str, kind: str | None = None) -> Any:
    """View what `header_of` describes as (..., rows, columns) pairs, or as `kind`."""
    x = as_matrix(x, name)
    dtype = x.dtype
    if not is_dask(x):
        return pack(x, dtype.str, kind)
    x = x.rechunk({x.ndim - 1: 2})
    family = family_of(x._meta)
    pairs = pair_dtype(dtype)
    usual = pairs if family == "numpy" else working_dtype(pairs)
    meta = empty_block(family, kind or usual)
    axes, given = range(x.ndim), {"dtype": meta.dtype, "meta": meta}
    given |= {"family": family, "declared": dtype.str, "kind": kind}
    # Not by map_blocks, which would copy each block to put the last axis together.
    return dask_array().blockwise(_pack_block, axes[:-1], x, axes, **given)


def _pack_block(parts: Any, family: Family, declared: str, kind: str | None) -> Any:
    """View a block as pairs; dask gives a list, along the axis that goes."""
    (block,) = parts
    return pack(check_declared(block, family, declared), declared, kind)


def pack(x: Any, dtype: str, kind: str | None = None) -> Any:
    """View the pairs of an array in memory as entries; `dtype`: the declared one.

    `kind`: that of the entries, if they are stored as something.
    """
    found = np.dtype(dtype)
    if family_of(x) == "cupy" and kind is None:
        parts = x.astype(working_dtype(found), order="C")
        return parts.view(working_dtype(pair_dtype(found)))[..., 0]
    # Blocks are sent in the machine's byte order.
    native = x.astype(found.newbyteorder("="), copy=False)
    words = kind is not None and np.dtype(kind).names is None
    if words and found.kind == "b":
        native = native.view(np.uint8) != 0  # any other byte is True
    if native.strides[-1] != native.itemsize:
        native = namespace(native).ascontiguousarray(native)
    return native.view(kind if words else pair_dtype(found))[..., 0]
