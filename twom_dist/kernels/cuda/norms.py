"""The launches of norms.cu, which measure rows and columns."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...moduli import ZERO_ROW, ScalingRule
from ...typing import Array
from ..octaves import COUNTED
from ..statistics import Ask, RowStatistics, column_bits
from .launch import (
    Device,
    Triple,
    count_matrices,
    lies_across,
    line_grid,
    listed,
    operand_args,
    remember,
    size_args,
    stack_stride,
    strip_grid,
    tile_grid,
)
from .sources import Module, module_for

FILL = ZERO_ROW & 0xFF
_ABSENT = (None, *map(np.int64, (0, 0, 0, 0, 1)), np.int32(0), np.int64(0))


def measure(
    device: Device,
    x: Array,
    norm_bits: int,
    asks: Collection[Ask],
    largest: Array | None,
    shifts: Array | None,
) -> RowStatistics:
    """Find what is asked for: largest exponents by one launch, all else by another."""
    rows, k = x.shape[:-1], x.shape[-1]
    kinds = 2 if "totals" in asks else int("squares" in asks)
    if largest is None:
        largest = device.filled(rows, np.int32, FILL)
        if x.size:
            find_largest(device, [x], [shifts], [largest])
    sums = counts = extremes = None
    if "octaves" in asks:
        # Which one pass finds with both sums.
        parts = ((2, *rows), np.int64), ((*rows, len(COUNTED)), np.int32)
        sums, counts = device.filled_together(parts, 0)
    elif kinds:
        sums = device.filled((kinds, *rows), np.int64)
    if "columns" in asks:
        extremes = device.filled((*x.shape[:-2], 3, k), np.int32, FILL)
    if x.size and counts is not None:
        given = [largest], norm_bits, [sums], [counts], [extremes]
        find_statistics(device, [x], [shifts], *given)
    elif x.size and asks:
        _sum_and_look(device, x, shifts, largest, norm_bits, sums, extremes)
    own = [None, None] if sums is None else [*sums[:kinds], None, None]
    return RowStatistics(largest, own[0], own[1], extremes, counts)


def find_largest(
    device: Device,
    operands: Sequence[Array],
    shifts: Sequence[Array | None],
    largest: Sequence[Array],
    sums: Sequence[Array] = (),
    counts: Sequence[Array] = (),
) -> None:
    """Take the maximum with `largest`, and set `sums` and `counts` to 0."""
    blocks, block, args = list_operands(operands)
    kinds = np.int32(len(sums[0]) if sums else 0)
    args = *args, *pair(shifts), *pair(largest), kinds, *pair(sums), *pair(counts)
    grid = blocks, 1, count_matrices(operands[0])
    device.launch(_module(operands[0], shifts), "largest_exponents", grid, block, args)


def _sum_and_look(
    device: Device,
    x: Array,
    shifts: Array | None,
    largest: Array,
    norm_bits: int,
    sums: Array | None,
    extremes: Array | None,
) -> None:
    """Add to `sums`, and take the maximum with `extremes`, where they are given."""
    blocks, block, args = _operand(x)
    columns, _, span = strip_grid(*x.shape[:-3:-1], not lies_across(x))
    total = (0 if sums is None else blocks) + (0 if extremes is None else columns)
    kinds = 0 if sums is None else len(sums)
    args = *args, np.int64(span), shifts, largest, np.int32(norm_bits)
    args = *args, np.int32(kinds), sums, extremes
    grid = total, 1, count_matrices(x)
    device.launch(_module(x, [shifts]), "sums_and_extremes", grid, block, args)


def find_statistics(
    device: Device,
    operands: Sequence[Array],
    shifts: Sequence[Array | None],
    largest: Sequence[Array],
    norm_bits: int,
    sums: Sequence[Array],
    counts: Sequence[Array],
    extremes: Sequence[Array | None],
    ends: Sequence[Array | None] = (None, None, None),
) -> None:
    """Add to both sums and to the counts of octaves, and look at columns.

    `counts` and `extremes` may be missing. `ends`: where each matrix's blocks count
    themselves, and its smallest cosines and sums of columns, if these are asked for.
    """
    blocks, block, args = list_operands(operands)
    grids = [strip_grid(*x.shape[:-3:-1], not lies_across(x)) for x in operands]
    if extremes and extremes[0] is not None:
        blocks += sum(x[0] for x in grids)
    k = operands[0].shape[-1]
    args = *args, *size_args(grids[0][2], grids[-1][2]), *pair(shifts), *pair(largest)
    args = *args, np.int32(norm_bits), *pair(sums), *pair(counts), *pair(extremes)
    args = *args, np.int32(column_bits(k)), *ends
    module = module_of("analysis", operands[0], shifts)
    grid = blocks, 1, count_matrices(operands[0])
    device.launch(module, "analyse", grid, block, args)


def list_operands(operands: Sequence[Array]) -> tuple[int, Triple, tuple[Any, ...]]:
    """Count the blocks of one operand or two; their threads, and first arguments."""
    args: list[Any] = []
    blocks = 0
    for x in operands:
        count, block, own = _operand(x)
        args += own
        blocks += count
    if len(operands) == 1:
        args += _ABSENT
    return blocks, block, tuple(args)


def _operand(x: Array) -> tuple[int, Triple, tuple[Any, ...]]:
    """Count the blocks of each matrix of an operand; their threads, and arguments."""
    x, across = listed(x), lies_across(x)
    blocks, block, span = strip_grid(*x.shape[-2:], across)
    args = *operand_args(x), np.int64(span), np.int32(across), stack_stride(x)
    return blocks, block, args


def module_of(family: str, x: Array, shifts: Sequence[Array | None]) -> Module:
    """Choose the module that shifts columns only where there are shifts."""
    shifted = any(e is not None for e in shifts)
    return module_for(family, x.dtype, shifted=shifted)


def _module(x: Array, shifts: Sequence[Array | None]) -> Module:
    return module_of("norms", x, shifts)


def pair(arrays: Sequence[Array | None]) -> tuple[Array | None, Array | None]:
    """Return two arrays, or None for those that are missing."""
    first, second, *_ = *arrays, None, None
    return first, second


def choose_exponents(
    device: Device, largest: Array, sums: Array, rule: ScalingRule
) -> Array:
    """Apply the rule to each row."""
    rows, out = largest.size, device.empty(largest.shape, np.int32)
    if rows > 0:
        args = largest, sums, np.int64(rows), *rule_args(rule), out
        module = module_for("norms", np.float64)
        device.launch(module, "choose_exponents", *line_grid(rows), args)
    return out


@remember
def rule_args(rule: ScalingRule) -> tuple[Any, ...]:
    """Describe a rule."""
    return np.int32(rule.power), np.uint64(rule.leading), np.int32(rule.norm_bits)


def error_sums(
    device: Device, x: Array, exponents: Array, bits: int, shifts: Array | None
) -> Array:
    """Sum the squares of what is rounded away."""
    sums = device.filled(x.shape[:-1], np.int64)
    if x.size:
        blocks, block, args = _operand(x)
        args = *args, shifts, exponents, np.float64(2.0**bits), sums
        grid = blocks, 1, count_matrices(x)
        device.launch(_module(x, [shifts]), "error_sums", grid, block, args)
    return sums


def octaves(device: Device, x: Array, largest: Array, shifts: Array | None) -> Array:
    """Find the octaves of entries below the largest of their rows."""
    out = device.empty(x.shape, np.uint8)
    if x.size:
        given = listed(x)
        args = (*operand_args(given), stack_stride(given), largest, shifts, out)
        grid, block = tile_grid(*x.shape[-2:], batch=count_matrices(x))
        device.launch(_module(x, [shifts]), "octaves", grid, block, args)
    return out
