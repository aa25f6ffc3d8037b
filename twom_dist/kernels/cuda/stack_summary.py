"""A few numbers for each matrix of a stack: launches of bounds.cu, and one wait."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...typing import Array
from ..stack_summary import column_bits
from ..survey import Summary, Surveyed
from . import norms
from .launch import Device
from .sources import module_for


def summarise(device: Device, found: Sequence[Surveyed], k: int) -> Summary:
    """Find the numbers of all matrices by one launch."""
    count = len(found[0].squares)
    looked = found[0].column_exponents is not None
    parts: list[Any] = [((len(found), count), np.float64)]
    cosines, *columns = device.empty_together(
        (*parts, *([((3, count), np.int64)] if looked else []))
    )
    launch(device, found, k, cosines, *columns)
    cosines, *columns = device.fetch([cosines, *columns])
    return Summary(cosines, columns[0] if columns else None)


def launch(
    device: Device,
    found: Sequence[Surveyed],
    k: int,
    cosines: Array,
    columns: Array | None = None,
) -> None:
    """Write the smallest cosines of each side, and sums of columns, of each matrix."""
    args: list[Any] = []
    for x in found:
        args += [x.squares, x.totals, np.int64(x.squares.shape[-1])]
    if len(found) == 1:
        args += [None, None, np.int64(0)]
    ends = found[0].column_exponents, found[-1].column_exponents
    args += [*ends, np.int64(k), np.int32(column_bits(k)), cosines, columns]
    grid = 1, 1, cosines.shape[1]
    device.launch(module_for("bounds"), "summarise", grid, (256, 1, 1), args)


def largest_errors(
    device: Device,
    operands: Sequence[Array],
    exponents: Sequence[Array],
    bits: int,
    places: Array,
) -> Array:
    """Sum errors of all operands by one launch, and find the largest by another."""
    count = len(places)
    shapes = tuple((count, e.shape[1]) for e in exponents)
    sums = device.filled_together(tuple((x, np.int64) for x in shapes), 0)
    # No operand is copied, and nothing is sent where all are asked for.
    some = count < len(operands[0])
    where = device.send(places.astype(np.int32)) if some else None
    norms.add_errors(device, operands, bits, sums, exponents=exponents, places=where)
    largest = device.empty((count,), np.int64)
    find_largest_sum(device, sums, largest)
    return device.fetch([largest])[0]


def find_largest_sum(device: Device, sums: Sequence[Array], largest: Array) -> None:
    """Write the largest sum of a row of each matrix, of one side or both."""
    sides = [(x, np.int64(x.shape[-1])) for x in sums]
    (x, m), (y, n) = sides if len(sides) == 2 else (*sides, (None, np.int64(0)))
    args, grid = (x, m, y, n, largest), (1, 1, len(largest))
    device.launch(module_for("bounds"), "largest_sums", grid, (256, 1, 1), args)
