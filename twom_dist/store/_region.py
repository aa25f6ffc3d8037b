"""Conversion of the index in ``matrix[...]`` into a rectangle to read."""

from typing import Any

from ..errors import ArgumentError

Region = tuple[slice, slice]
LocalIndex = tuple[slice | int, slice | int]


def split_index(index: Any, shape: tuple[int, int]) -> tuple[Region, LocalIndex]:
    """Split an index into the rectangle to read and the index within it.

    ``matrix[index] == matrix[rectangle][within]``, element for element.
    """
    try:
        row, column = index
        rows, i = _split_axis(row, shape[0])
        columns, j = _split_axis(column, shape[1])
    except (TypeError, ValueError):
        problem = f"the index {index!r} is not a pair of slices or integers"
        raise ArgumentError(problem, "Write matrix[i0:i1, j0:j1]", "index") from None
    return (rows, columns), (i, j)


def _split_axis(entry: Any, extent: int) -> tuple[slice, slice | int]:
    picked = range(extent)[entry]
    # dask fuses x[i, :] into the read, so integers arrive here, too.
    if isinstance(picked, int):
        return slice(picked, picked + 1), 0
    if not picked:
        return slice(0, 0), slice(None)
    low, high = sorted((picked[0], picked[-1]))
    return slice(low, high + 1), slice(None, None, picked.step)
