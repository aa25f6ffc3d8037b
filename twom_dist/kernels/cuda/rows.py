"""Rows and columns of one operand or of two: launches that measure them.

See `kernels.analysis` for the stages of the engine.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...moduli import ZERO_ROW, ScalingRule
from ...typing import Array
from ..statistics import COUNTED, NONE, Ask, RowStatistics, column_bits
from .device import CudaDevice
from .launch import (
    BLOCK,
    LINE_BLOCK,
    NO_OPERAND,
    as_stack,
    count_matrices,
    lies_across,
    line_grid,
    operand,
    stack_stride,
    strides,
    strip_grid,
    tile_grid,
)
from .sources import Module, module_for

_SIDE = 64  # of the squares of pairs that a block of octaves.cu takes
FILL = ZERO_ROW & 0xFF  # the byte that what maxima are taken of is filled with


class Side(NamedTuple):
    """An operand, and what is found of its rows and columns."""

    x: Array  # (..., rows, k)
    shifts: Array | None  # (k,) int32, optional
    largest: Array  # (..., rows) int32
    sums: Array | None = None  # (kinds, ..., rows) int64, optional
    counts: Array | None = None  # (..., rows, 25) int32, optional
    extremes: Array | None = None  # (..., 3, k) int32, optional


def find_largest(device: CudaDevice, sides: Sequence[Side]) -> None:
    """Take the maximum with `largest`, and set `sums` and `counts` to 0."""
    blocks, described = describe(sides)
    kinds = 0 if sides[0].sums is None else len(sides[0].sums)
    args = *described, kinds
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
    blocks, described = describe(sides)
    kinds = 0 if sides[0].sums is None else len(sides[0].sums)
    blocks *= kinds > 0
    grids = [strip_grid(*s.x.shape[:-3:-1], not lies_across(s.x)) for s in sides]
    if sides[0].extremes is not None:
        blocks += sum(count for count, _ in grids)
    args = (
        *(*described, grids[0][1], grids[-1][1], norm_bits, kinds),
        *(column_bits(sides[0].x.shape[-1]), *ends),
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
    own = [s._replace(sums=x) for s, x in zip(sides, errors, strict=True)]
    blocks, described = describe(own)
    args = *described, pair(squares), rule_args(rule), 2.0**rule.norm_bits, *ends
    grid = blocks, 1, count_matrices(sides[0].x)
    device.launch(module_of("analysis", sides), "find_errors", grid, BLOCK, args)


def describe(sides: Sequence[Side]) -> tuple[int, list[tuple[Any, ...]]]:
    """Count the blocks of one side or two, and describe two, as norms.cuh has them."""
    blocks, found = 0, [(*NO_OPERAND, *[None] * 5)] * 2
    for i, (x, *rest) in enumerate(sides):
        own = as_stack(x)
        count, span = strip_grid(*own.shape[-2:], lies_across(own))
        found[i] = *operand(own, span), *rest
        blocks += count
    return blocks, found


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
    return rule.power, rule.norm_bits, rule.leading


class CudaRows:
    """Launches of norms.cu and octaves.cu."""

    device: CudaDevice

    def measure(
        self,
        x: Array,
        norm_bits: int,
        asks: Collection[Ask] = (),
        *,
        largest: Array | None = None,
        shifts: Array | None = None,
    ) -> RowStatistics:
        """Find largest exponents by one launch, all else by another."""
        device, rows, k = self.device, x.shape[:-1], x.shape[-1]
        kinds = 2 if "totals" in asks else int("squares" in asks)
        if largest is None:
            largest = device.full(rows, np.int32, FILL)
            if x.size:
                find_largest(device, [Side(x, shifts, largest)])
        sums = counts = extremes = None
        if "octaves" in asks:
            # Which one pass finds with both sums.
            parts = ((2, *rows), np.int64), ((*rows, len(COUNTED)), np.int32)
            sums, counts = device.allocate(parts, 0)
        elif kinds:
            sums = device.full((kinds, *rows), np.int64)
        if "columns" in asks:
            extremes = device.full((*x.shape[:-2], 3, k), np.int32, FILL)
        side = Side(x, shifts, largest, sums, counts, extremes)
        if x.size and asks:
            find_statistics(device, [side], norm_bits)
        own = [None, None] if sums is None else [*sums[:kinds], None, None]
        return RowStatistics(largest, own[0], own[1], extremes, counts)

    def choose_exponents(
        self, largest: Array, squares: Array, rule: ScalingRule
    ) -> Array:
        """Apply the rule to each row."""
        rows, out = largest.size, self.device.empty(largest.shape, np.int32)
        if rows > 0:
            args = largest, squares, rows, rule_args(rule), out
            module = module_for("norms", np.float64)
            self.device.launch(module, "choose_exponents", *line_grid(rows), args)
        return out

    def error_sums(
        self,
        x: Array,
        measured: RowStatistics,
        rule: ScalingRule,
        shifts: Array | None = None,
    ) -> Array:
        """Sum the squares of what `encode` rounds away."""
        sums = self.device.full(x.shape[:-1], np.int64)
        if x.size:
            side = Side(x, shifts, measured.largest)
            find_errors(self.device, [side], [measured.squares], rule, [sums])
        return sums

    def octaves(self, x: Array, largest: Array, shifts: Array | None = None) -> Array:
        """Find the octaves of entries below the largest of their rows."""
        out = self.device.empty(x.shape, np.uint8)
        if x.size:
            x = as_stack(x)
            sizes = *x.shape[-2:], *strides(x), stack_stride(x)
            args = x, *sizes, largest, shifts, out
            grid, block = tile_grid(*x.shape[-2:], batch=count_matrices(x))
            module = module_of("norms", [Side(x, shifts, largest)])
            self.device.launch(module, "octaves", grid, block, args)
        return out

    def multiply_octaves(
        self, x: Array, y: Array, least: Array | None = None, enough: Any = None
    ) -> Array:
        """Find the least sum of octaves of each pair of rows, by squares of pairs."""
        (m, k), n = x.shape, len(y)
        if 0 in (m, n, k):
            return self.device.full((m, n), np.uint8, NONE) if least is None else least
        out = self.device.empty((m, n), np.uint8) if least is None else least
        grid = -(-m // _SIDE) * -(-n // _SIDE), 1, 1
        rows, columns = enough or (None, None)
        args = x, y, m, n, k, rows, columns, int(least is not None), out
        module = module_for("octaves")
        self.device.launch(module, "multiply_octaves", grid, LINE_BLOCK, args)
        return out
