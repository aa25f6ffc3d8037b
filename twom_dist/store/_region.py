"""Rectangles of a matrix, from what stands between the brackets of ``matrix[...]``."""

import operator
from typing import Any

from twom_dist.errors import ArgumentError

Region = tuple[slice, slice]
LocalIndex = tuple[slice | int, slice | int]


def split_index(index: Any, shape: tuple[int, int]) -> tuple[Region, LocalIndex]:
    """Split an index into the rectangle to read and the index within it.

    ``matrix[index] == matrix[rectangle][within]``, element for element.
    """
    if not isinstance(index, tuple) or len(index) != 2:
        raise _refuse(index, "a pair of slices")
    rows, columns = index
    row_span, row_index = _split_axis(rows, shape[0])
    column_span, column_index = _split_axis(columns, shape[1])
    return (row_span, column_span), (row_index, column_index)


def _refuse(index: Any, allowed: str) -> ArgumentError:
    problem = f"the index {index!r} is not {allowed}"
    return ArgumentError(problem, "Write matrix[i0:i1, j0:j1]", "index")


def region_shape(region: Region) -> tuple[int, int]:
    """Return the number of rows and columns of a rectangle."""
    rows, columns = region
    return rows.stop - rows.start, columns.stop - columns.start


def _split_axis(entry: Any, extent: int) -> tuple[slice, slice | int]:
    if isinstance(entry, slice):
        start, stop, step = entry.indices(extent)
        picked = range(start, stop, step)
        if not picked:
            return slice(0, 0), slice(None)
        low, high = sorted((picked[0], picked[-1]))
        return slice(low, high + 1), slice(None, None, step)
    # dask fuses x[i, :] into its read, so integers reach here as well.
    try:
        position = operator.index(entry)
    except TypeError:
        raise _refuse(entry, "a slice or an integer") from None
    if not -extent <= position < extent:
        raise IndexError(f"the index {position} is outside an axis of length {extent}")
    position %= extent
    return slice(position, position + 1), 0
