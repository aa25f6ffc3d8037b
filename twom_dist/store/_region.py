"""Rectangles of a matrix, from what stands between the brackets of ``matrix[...]``."""

from typing import Any

from ..errors import ArgumentError

Region = tuple[slice, slice]
LocalIndex = tuple[slice | int, slice | int]


def split_index(index: Any, shape: tuple[int, int]) -> tuple[Region, LocalIndex]:
    """Split an index into the rectangle to read and the index within it.

    ``matrix[index] == matrix[rectangle][within]``, element for element.
    """
    if not isinstance(index, tuple) or len(index) != 2:
        raise _refuse(index, "a pair of slices")
    (rows, i), (columns, j) = map(_split_axis, index, shape)
    return (rows, columns), (i, j)


def _split_axis(entry: Any, extent: int) -> tuple[slice, slice | int]:
    try:
        picked = range(extent)[entry]
    except IndexError:
        problem = f"the index {entry} is outside an axis of length {extent}"
        raise IndexError(problem) from None
    except TypeError:
        raise _refuse(entry, "a slice or an integer") from None
    # dask fuses x[i, :] into its read, so integers reach here as well.
    if isinstance(picked, int):
        return slice(picked, picked + 1), 0
    if not picked:
        return slice(0, 0), slice(None)
    low, high = sorted((picked[0], picked[-1]))
    return slice(low, high + 1), slice(None, None, picked.step)


def _refuse(index: Any, allowed: str) -> ArgumentError:
    problem = f"the index {index!r} is not {allowed}"
    return ArgumentError(problem, "Write matrix[i0:i1, j0:j1]", "index")
