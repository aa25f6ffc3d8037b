"""Integers whose dtype does not bound them well: of floating point, or 64 bits.

Every part is checked before anything is multiplied: in arrays in memory at once, in
floating-point dask arrays when a block is read. Integers of 32 or 64 bits in memory are
searched for their largest magnitude, because NumPy's default is int64.
"""

from operator import add
from typing import Any

import numpy as np

from ..errors import AccuracyError, ArgumentError, PlanError, portable_errors
from ..kernels.family import empty_block, family_of, namespace
from .call import Call
from .matrices import Header, is_dask

# Entries whose copies stay in a cache, and those that keep a GPU busy.
_AT_ONCE = {"numpy": 1 << 15, "cupy": 1 << 24}


def is_floating(dtype: Any) -> bool:
    """Tell a dtype of real or complex numbers up to double precision."""
    return np.dtype(dtype).char in "efdFD"


def largest_whole(dtype: Any) -> int:
    """Return the magnitude up to which a floating-point dtype holds all integers."""
    return 1 << int(np.finfo(dtype).nmant) + 1


def outline_integers(x: Any, name: str) -> Any:
    """Return the header of a matrix of integers, in floating point or not.

    It tells the largest magnitude of an array in memory of which the dtype does not.
    """
    largest = None
    if not is_floating(x.dtype):
        largest = find_magnitude(x)
    elif not is_dask(x):
        largest = find_largest(x, name, largest_whole(x.dtype))
    return Header(x.shape, x.dtype, largest)


def find_magnitude(x: Any) -> int | None:
    """Return the largest magnitude of integers of 32 or 64 bits in memory, else None.

    Narrower ones go by their dtypes: their products fit, and take few moduli.
    """
    ours = isinstance(x, np.ndarray) or (not is_dask(x) and family_of(x) == "cupy")
    if not ours or x.dtype.kind not in "iu" or x.dtype.itemsize < 4:
        return None
    return max(int(x.max()), -int(x.min())) if x.size else 0


def find_largest(
    x: Any,
    name: str,
    limit: int,
    *,
    block: Any = None,
    origin: tuple[int, int] = (0, 0),
) -> int:
    """Return the largest magnitude of all parts; refuse all but integers.

    PlanError tells the first entry that is not an integer, NaN and infinities among
    them, or that is one of many integers which the dtype does not tell apart, and
    AccuracyError the first one above the limit. `block`: the place of x among the
    blocks of the matrix, if its origin is not known; `origin`: the row and the column
    of the matrix where x begins.
    """
    xp, found = namespace(x), 0
    if not x.size:
        return found
    x = x if x.ndim else x.reshape(1)
    rows = x.reshape(-1, x.shape[-1])
    step = max(1, _AT_ONCE[family_of(x)] // x.shape[-1])
    for start in range(0, len(rows), step):
        parts = as_parts(rows[start : start + step])
        largest = xp.abs(parts).max()
        # Comparisons with NaN are false.
        if not (largest <= limit and (xp.rint(parts) == parts).all()):
            index, part = _find_first(x, parts, start, limit, origin)
            where = f"{name}[{index}]" + (f" in block {block}" if block else "")
            raise _refusal(f"{where} has the part {part!r}", part, x.dtype, limit)
        found = max(found, int(largest))
    return found


def check_integers(call: Call) -> None:
    """Refuse integers of what is none, and a place for them."""
    if call.terms.alpha != 1 or call.C is not None or call.out is not None:
        problem = f"with dtype={call.terms.letter!r} nothing is scaled or added to C"
        remedy = "Leave alpha, C and out out, or request floating-point numbers"
        raise ArgumentError(problem, remedy, "exact-dtype")


def as_integers(x: Any, dtype: str) -> Any:
    """Convert exact sums to integers, and complex ones to pairs of them."""
    if x.dtype == dtype:
        return x
    pairs = x.dtype.kind == "c"
    if is_dask(x):
        given: dict[str, Any] = {"meta": empty_block(family_of(x._meta), dtype)}
        if pairs:
            given |= {"new_axis": x.ndim, "chunks": (*x.chunks, (2,))}
        return x.map_blocks(as_integers, dtype, token="twom-integers", **given)
    return as_parts(x).reshape(*x.shape, *(2,) * pairs).astype(dtype)


def as_parts(rows: Any) -> Any:
    """View rows of numbers as rows of their parts, copied unless they are dense."""
    if rows.dtype.kind != "c":
        return rows
    return namespace(rows).ascontiguousarray(rows).view(rows.real.dtype)


def _find_first(
    x: Any, parts: Any, start: int, limit: int, origin: tuple[int, int]
) -> tuple[str, float]:
    xp = namespace(parts)
    taken = (xp.abs(parts) <= limit) & (xp.rint(parts) == parts)
    row, column = divmod(int(taken.argmin()), parts.shape[-1])
    entry = (start + row) * x.shape[-1] + column // (parts.shape[-1] // x.shape[-1])
    place = [*map(int, np.unravel_index(entry, x.shape))]
    # Vectors have no row.
    place[-2:] = map(add, place[-2:], origin[-x.ndim :])
    return ", ".join(map(str, place)), parts[row, column].item()


def _refusal(text: str, part: float, dtype: Any, limit: int) -> PlanError:
    exact = largest_whole(dtype)
    if not (np.isfinite(part) and part == np.rint(part)):
        problem = f"{text}, which is not an integer"
        remedy = "Round it first, or call td.gemm, td.herk or the like for any numbers"
    elif abs(part) > exact:
        bits = exact.bit_length() - 1
        problem = f"{text}, and {dtype} does not hold all integers beyond 2^{bits}"
        remedy = "Give integers of int64 or Python's to td.integers.matmul"
    else:
        problem = f"{text}, and sums of products may exceed 2^53 beyond {limit}"
        remedy = "Call td.integers.matmul, with dask arrays of files"
        return AccuracyError(problem, remedy, "exact-range")
    return PlanError(problem, remedy, "not-integer")


def check_lazily(x: Any, name: str, limit: int) -> Any:
    """Return a dask array whose blocks are checked when they are read."""
    if not (is_dask(x) and is_floating(x.dtype)):
        return x
    given = {"dtype": x.dtype, "meta": x._meta, "token": "twom-integers"}
    return x.map_blocks(_check_block, name, limit, **given)


def _check_block(x: Any, name: str, limit: int, block_id: Any = None) -> Any:
    with portable_errors():
        find_largest(x, name, limit, block=block_id)
    return x
