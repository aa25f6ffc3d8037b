"""Launches that measure rows and columns, of one operand or two."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...moduli import ZERO_ROW, ScalingRule
from ...typing import Array
from ..statistics import column_bits
from .device import CudaDevice
from .launch import (
    BLOCK,
    NO_OPERAND,
    count_matrices,
    lies_across,
    listed,
    operand,
    strip_grid,
)
from .sources import Module, module_for

# The byte that what maxima are taken of is filled with.
FILL = ZERO_ROW & 0xFF


class Side(NamedTuple):
    """An operand, and what is found of its rows and columns.

    Attributes
    ----------
    x : (..., rows, k)
    shifts : (k,) int32, optional
    largest : (..., rows) int32
    sums : (kinds, ..., rows) int64, optional
    counts : (..., rows, 25) int32, optional
    extremes : (..., 3, k) int32, optional
    """

    x: Array
    shifts: Array | None
    largest: Array
    sums: Array | None = None
    counts: Array | None = None
    extremes: Array | None = None


def find_largest(device: CudaDevice, sides: Sequence[Side]) -> None:
    """Take the maximum with `largest`, and set `sums` and `counts` to 0."""
    blocks, operands = list_operands(sides)
    kinds = 0 if sides[0].sums is None else len(sides[0].sums)
    args = (
        *(*operands, pair(s.shifts for s in sides), pair(s.largest for s in sides)),
        *(kinds, pair(s.sums for s in sides), pair(s.counts for s in sides)),
    )
    grid = blocks, 1, count_matrices(sides[0].x)
    module = module_of("norms", sides)
    device.launch(module, "largest_exponents", grid, BLOCK, args)


def find_statistics(
    device: CudaDevice,
    sides: Sequence[Side],
    norm_bits: int,
    ends: Sequence[Array | None] = (None, None, None),
) -> None:
    """Add to sums, of one kind or two, and to octaves; take the maximum of `extremes`.

    Each may be missing; octaves are counted with both sums. `ends`: where each matrix's
    blocks count themselves, and its smallest cosines and sums of columns, if asked for.
    """
    blocks, operands = list_operands(sides)
    kinds = 0 if sides[0].sums is None else len(sides[0].sums)
    blocks *= kinds > 0
    grids = [strip_grid(*s.x.shape[:-3:-1], not lies_across(s.x)) for s in sides]
    if sides[0].extremes is not None:
        blocks += sum(count for count, _ in grids)
    args = (
        *(*operands, grids[0][1], grids[-1][1]),
        *(pair(s.shifts for s in sides), pair(s.largest for s in sides), norm_bits),
        *(kinds, pair(s.sums for s in sides), pair(s.counts for s in sides)),
        *(pair(s.extremes for s in sides), column_bits(sides[0].x.shape[-1]), *ends),
    )
    grid = blocks, 1, count_matrices(sides[0].x)
    device.launch(module_of("analysis", sides), "analyse", grid, BLOCK, args)


def find_errors(
    device: CudaDevice,
    sides: Sequence[Side],
    squares: Sequence[Array],
    rule: ScalingRule,
    errors: Sequence[Array],
    ends: Sequence[Array | None] = (None, None),
) -> None:
    """Add the squares of rounding errors to `errors`, as the rule scales rows.

    `ends`: where each matrix's blocks count themselves, and the largest of its sums.
    """
    blocks, operands = list_operands(sides)
    args = (
        *(*operands, pair(s.shifts for s in sides), pair(s.largest for s in sides)),
        *(pair(squares), rule_args(rule), 2.0**rule.norm_bits, pair(errors), *ends),
    )
    grid = blocks, 1, count_matrices(sides[0].x)
    device.launch(module_of("analysis", sides), "find_errors", grid, BLOCK, args)


def list_operands(sides: Sequence[Side]) -> tuple[int, list[tuple[Any, ...]]]:
    """Count the blocks of one operand or two, and describe two."""
    blocks, operands = 0, [NO_OPERAND, NO_OPERAND]
    for i, side in enumerate(sides):
        x = listed(side.x)
        count, span = strip_grid(*x.shape[-2:], lies_across(x))
        operands[i] = operand(x, span)
        blocks += count
    return blocks, operands


def module_of(family: str, sides: Sequence[Side]) -> Module:
    """Choose the module that shifts columns only where there are shifts."""
    shifted = any(s.shifts is not None for s in sides)
    return module_for(family, sides[0].x.dtype, shifted=shifted)


def pair(arrays: Iterable[Array | None]) -> tuple[Array | None, Array | None]:
    """Return two arrays, or None for those that are missing."""
    first, second, *_ = *arrays, None, None
    return first, second


def rule_args(rule: ScalingRule) -> tuple[int, int, int]:
    """Describe a rule."""
    return rule.power, rule.leading, rule.norm_bits
