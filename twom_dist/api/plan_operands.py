"""Matrices that plans and explanations take: arrays, shapes, and paths of files."""

import os
from typing import Any

import numpy as np

from ..config import check_settings
from ..errors import ArgumentError
from ..interop.data_arrays import as_plain
from ..interop.dlpack import adopt
from ..plan import LARGEST_TILE
from ..problem.call import Call
from ..problem.choice import Exact
from ..problem.dtypes import DTYPES, letter_of
from ..problem.matrices import Header, as_array, as_matrix, check_single, read_shape
from ..problem.pairs import check_told, header_of
from ..store import StoredMatrix, open_matrix, read_vector
from ..tiles.integers import part_dtype
from ..typing import as_integer

_MATRICES = ("A", "B", "C")  # other operands are vectors


def take_matrices(call: Call, dtype: Any = None, *, reading: bool = False) -> Call:
    """Replace the matrices of a call by arrays and headers.

    `dtype`: that of the result and of shapes; of exact products that of the result, or
    if it is of integers, of shapes. By default that of a BLAS-typed name or of an array
    besides them, or complex128, or int8 if exact.
    `reading`: whether the data are checked: files become dask arrays, not headers.
    Stacks are refused, except shapes of them if reading.
    """
    check_settings()
    if call.out is not None:
        text = "out has no effect on plans and explanations, which compute nothing"
        raise ArgumentError(text, "Omit the argument out", "out")
    labelled = call.names is not None
    if labelled:
        call = as_plain(call, single=reading)
    exact = isinstance(call.terms.choice.target, Exact)
    named = {x: y for x, y in call.arrays().items() if y is not None}
    pairs = call.terms.choice.pairs
    shapes = dtype is not None and exact and any(map(_is_shape, named.values()))
    integers = shapes and read_shape("A", (0, 0), dtype).dtype.kind in "biu"
    if dtype is not None and not integers:
        letter = letter_of(dtype, exact=exact)
        call = call._replace(terms=call.terms._replace(letter=letter))
        if exact and (pairs or letter not in ("z", "c")):
            dtype = None
    given = {x: _open(y, x, reading, pairs) for x, y in named.items()}
    found, _ = adopt(**given)
    if dtype is None:
        matrices = (
            x for x, name in zip(found, given, strict=True) if name in _MATRICES
        )
        # Those of files of pairs have two fields, as shapes do not.
        dtypes = (part_dtype(x.dtype) for x in matrices if hasattr(x, "dtype"))
        dtype = None if exact else DTYPES.get(call.terms.letter or "")
        dtype = dtype or next(dtypes, "int8" if exact else "complex128")
    taken = {name: _take(x, name, dtype) for x, name in zip(found, given, strict=True)}
    if not labelled:
        check_told(call.terms, taken["A"], taken.get("B"))
    seen = {x: y for x, y in taken.items() if x in _MATRICES}
    if pairs:
        parts = {x: header_of(y, x) for x, y in seen.items() if x != "C"}
        seen |= parts
        # Headers are those of the pairs, and besides one no array is read; other
        # arrays are viewed as pairs when read.
        unseen = reading and any(map(is_header, taken.values()))
        taken |= {x: y for x, y in parts.items() if unseen or is_header(taken[x])}
    for name, x in seen.items():
        if not (reading and is_header(taken[name])):
            check_single(x, name)
    return call.with_arrays(taken)


def is_header(x: Any) -> bool:
    """Tell whether x is only a shape and a dtype."""
    return isinstance(x, Header | StoredMatrix)


def _is_shape(x: Any) -> bool:
    return isinstance(x, list | tuple) and all(np.ndim(t) == 0 for t in x)


def _open(x: Any, name: str, reading: bool, pairs: bool) -> Any:
    """Return the header of a file or the dask array that reads it; else x.

    Pairs are not read: they are integers, of which dtypes tell enough.
    """
    if isinstance(x, str | os.PathLike):
        if name not in _MATRICES:
            return read_vector(x)
        stored = open_matrix(x, pairs and name != "C")
        if stored.pairs or not reading:
            return stored
        from dask.array.core import from_array

        meta = np.empty((0, 0), stored.dtype)
        return from_array(stored, chunks=LARGEST_TILE, asarray=False, meta=meta)
    return x


def _take(x: Any, name: str, dtype: Any) -> Any:
    """Return the header of a shape, or a matrix, or a stack; or a vector."""
    if is_header(x):
        return x
    if name not in _MATRICES:
        if isinstance(x, tuple) and len(x) == 1 and as_integer(x[0]) is not None:
            return Header((int(x[0]),), np.dtype("float32"))
        return as_array(x, name)
    if _is_shape(x):
        return read_shape(name, x, dtype, stacks=True)
    return as_matrix(x, name)
