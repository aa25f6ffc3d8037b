"""The stages of the CUDA engine that look at operands; see `kernels.analysis`."""

from collections.abc import Collection

import numpy as np

from ...moduli import ScalingRule
from ...typing import Array
from ..statistics import COUNTED, NONE, Ask, RowStatistics
from .analysis import CudaAnalyses
from .launch import (
    LINE_BLOCK,
    count_matrices,
    line_grid,
    listed,
    stack_stride,
    strides,
    tile_grid,
)
from .norms import (
    FILL,
    Side,
    find_errors,
    find_largest,
    find_statistics,
    module_of,
    rule_args,
)
from .sources import module_for

_SIDE = 64  # of the squares of pairs that a block of octaves.cu takes


class CudaRows(CudaAnalyses):
    """Launches of norms.cu and octaves.cu."""

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
            largest = device.filled(rows, np.int32, FILL)
            if x.size:
                find_largest(device, [Side(x, shifts, largest)])
        sums = counts = extremes = None
        if "octaves" in asks:
            # Which one pass finds with both sums.
            parts = ((2, *rows), np.int64), ((*rows, len(COUNTED)), np.int32)
            sums, counts = device.allocate(parts, 0)
        elif kinds:
            sums = device.filled((kinds, *rows), np.int64)
        if "columns" in asks:
            extremes = device.filled((*x.shape[:-2], 3, k), np.int32, FILL)
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
        sums = self.device.filled(x.shape[:-1], np.int64)
        if x.size:
            side = Side(x, shifts, measured.largest)
            find_errors(self.device, [side], [measured.squares], rule, [sums])
        return sums

    def octaves(self, x: Array, largest: Array, shifts: Array | None = None) -> Array:
        """Find the octaves of entries below the largest of their rows."""
        out = self.device.empty(x.shape, np.uint8)
        if x.size:
            x = listed(x)
            sizes = *x.shape[-2:], *strides(x), stack_stride(x)
            args = x, *sizes, largest, shifts, out
            grid, block = tile_grid(*x.shape[-2:], batch=count_matrices(x))
            module = module_of("norms", [Side(x, shifts, largest)])
            self.device.launch(module, "octaves", grid, block, args)
        return out

    def multiply_octaves(self, x: Array, y: Array) -> Array:
        """Find the least sum of octaves of each pair of rows, by squares of pairs."""
        (m, k), n = x.shape, len(y)
        if 0 in (m, n, k):
            return self.device.filled((m, n), np.uint8, NONE)
        out = self.device.empty((m, n), np.uint8)
        grid, args = (-(-m // _SIDE) * -(-n // _SIDE), 1, 1), (x, y, m, n, k, out)
        module = module_for("octaves")
        self.device.launch(module, "multiply_octaves", grid, LINE_BLOCK, args)
        return out
