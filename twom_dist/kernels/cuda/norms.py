"""The launches of norms.cu, which measure rows and columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...moduli import ZERO_ROW, ScalingRule
from ...typing import Array
from ..survey import Surveyed
from .launch import (
    Device,
    Parts,
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


def survey(
    device: Device,
    operands: Sequence[Array],
    norm_bits: int,
    totals: bool,
    columns: bool,
    shifts: Sequence[Array],
) -> list[Surveyed]:
    """Look at one or two operands in two launches."""
    shapes = tuple(x.shape for x in operands)
    found = device.filled_together(_survey_parts(shapes, totals, columns), FILL)
    count = len(operands)
    largest, sums, extremes = (found[i : i + count] for i in range(0, 3 * count, count))
    find_largest(device, operands, shifts, largest, sums)
    sum_and_look(device, operands, shifts, largest, norm_bits, sums, extremes)
    return [
        Surveyed(
            largest[i], *sums[i], *(() if totals else (None,)), *extremes[i : i + 1]
        )
        for i in range(count)
    ]


@remember
def _survey_parts(
    shapes: tuple[tuple[int, ...], ...], totals: bool, columns: bool
) -> Parts:
    """List what one allocation holds."""
    parts: list[Any] = [(shape[:-1], np.int32) for shape in shapes]
    parts += [((1 + totals, *shape[:-1]), np.int64) for shape in shapes]
    if columns:
        parts += [((*shape[:-2], 3, shape[-1]), np.int32) for shape in shapes]
    return tuple(parts)


def largest_exponents(device: Device, x: Array, shifts: Array | None) -> Array:
    """Find the smallest e with |Re|, |Im| < 2^e for each row of x."""
    largest = device.filled(x.shape[:-1], np.int32, FILL)
    if x.size:
        find_largest(device, [x], [shifts], [largest], [])
    return largest


def square_sums(
    device: Device, x: Array, largest: Array, norm_bits: int, shifts: Array | None
) -> Array:
    """Sum ceil(|t| 2^(norm_bits - e))^2 over the parts of each row."""
    return _sum_rows(device, x, largest, norm_bits, shifts, 1)[0]


def row_sums(
    device: Device, x: Array, largest: Array, norm_bits: int, shifts: Array | None
) -> tuple[Array, Array]:
    """Sum squares and magnitudes of each row."""
    squares, totals = _sum_rows(device, x, largest, norm_bits, shifts, 2)
    return squares, totals


def _sum_rows(
    device: Device,
    x: Array,
    largest: Array,
    norm_bits: int,
    shifts: Array | None,
    kinds: int,
) -> Array:
    sums = device.filled((kinds, *x.shape[:-1]), np.int64)
    if x.size:
        sum_and_look(device, [x], [shifts], [largest], norm_bits, [sums], [])
    return sums


def column_exponents(device: Device, x: Array, largest: Array) -> Array:
    """Find the extreme exponents of the parts of each column that are not 0."""
    extremes = device.filled((*x.shape[:-2], 3, x.shape[-1]), np.int32, FILL)
    if x.size:
        sum_and_look(device, [x], [], [largest], 0, [], [extremes])
    return extremes


def find_largest(
    device: Device,
    operands: Sequence[Array],
    shifts: Sequence[Array | None],
    largest: Sequence[Array],
    sums: Sequence[Array],
) -> None:
    """Take the maximum with `largest`, and set `sums` to 0."""
    blocks, block, args = _list_operands(operands)
    args = (*args, *_pair(shifts), *_pair(largest), _kinds(sums), *_pair(sums))
    grid = blocks, 1, count_matrices(operands[0])
    device.launch(_module(operands[0], shifts), "largest_exponents", grid, block, args)


def sum_and_look(
    device: Device,
    operands: Sequence[Array],
    shifts: Sequence[Array | None],
    largest: Sequence[Array],
    norm_bits: int,
    sums: Sequence[Array],
    extremes: Sequence[Array],
) -> None:
    """Add to `sums`, and take the maximum with `extremes`, where they are given."""
    blocks, block, args = _list_operands(operands)
    grids = [strip_grid(*x.shape[:-3:-1], not lies_across(x)) for x in operands]
    total = (blocks if sums else 0) + (sum(x[0] for x in grids) if extremes else 0)
    spans = size_args(grids[0][2], grids[-1][2])
    args = (*args, *spans, *_pair(shifts), *_pair(largest), np.int32(norm_bits))
    args += (_kinds(sums), *_pair(sums), *_pair(extremes))
    grid = total, 1, count_matrices(operands[0])
    device.launch(_module(operands[0], shifts), "sums_and_extremes", grid, block, args)


def _list_operands(operands: Sequence[Array]) -> tuple[int, Triple, tuple[Any, ...]]:
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


def _module(x: Array, shifts: Sequence[Array | None]) -> Module:
    """Choose the module that shifts columns only where there are shifts."""
    shifted = any(e is not None for e in shifts)
    return module_for("norms", x.dtype, shifted=shifted)


def _kinds(sums: Sequence[Array]) -> Any:
    """Count the sums of a row."""
    return np.int32(len(sums[0]) if sums else 0)


def _pair(arrays: Sequence[Array | None]) -> tuple[Array | None, Array | None]:
    """Return two arrays, or None for those that are missing."""
    first, second, *_ = *arrays, None, None
    return first, second


def choose_exponents(
    device: Device, largest: Array, sums: Array, rule: ScalingRule
) -> Array:
    """Apply the rule to each row."""
    rows, out = largest.size, device.empty(largest.shape, np.int32)
    if rows > 0:
        args = largest, sums, np.int64(rows), *_rule_args(rule), out
        module = module_for("norms", np.float64)
        device.launch(module, "choose_exponents", *line_grid(rows), args)
    return out


@remember
def _rule_args(rule: ScalingRule | None) -> tuple[Any, ...]:
    """Describe a rule, or none."""
    if rule is None:
        return np.int32(0), np.uint64(0), np.int32(0)
    return np.int32(rule.power), np.uint64(rule.leading), np.int32(rule.norm_bits)


def error_sums(
    device: Device, x: Array, exponents: Array, bits: int, shifts: Array | None
) -> Array:
    """Sum the squares of what is rounded away."""
    sums = device.filled(x.shape[:-1], np.int64)
    if x.size:
        given = device, [x], bits, [sums]
        add_errors(*given, exponents=[exponents], shifts=[shifts])
    return sums


def add_errors(
    device: Device,
    operands: Sequence[Array],
    bits: int,
    sums: Sequence[Array],
    *,
    exponents: Sequence[Array] = (),
    known: Sequence[tuple[Array, Array]] = (),
    rule: ScalingRule | None = None,
    shifts: Sequence[Array | None] = (),
    places: Array | None = None,
) -> None:
    """Add the squares of what is rounded away to the sums of the rows of operands.

    By exponents, or by what the rule chooses of `known`. `places`: the matrices of the
    sums, on the device; all by default.
    """
    blocks, block, args = _list_operands(operands)
    args = *args, places, *_pair(shifts), *_pair(exponents)
    for own in zip(*known, strict=True) if known else ((), ()):
        args += _pair(own)
    args += (*_rule_args(rule), np.float64(2.0**bits), *_pair(sums))
    grid = blocks, 1, count_matrices(operands[0]) if places is None else len(places)
    device.launch(_module(operands[0], shifts), "error_sums", grid, block, args)


def octaves(device: Device, x: Array, largest: Array, shifts: Array | None) -> Array:
    """Find the octaves of entries below the largest of their rows."""
    out = device.empty(x.shape, np.uint8)
    if x.size:
        given = listed(x)
        args = (*operand_args(given), stack_stride(given), largest, shifts, out)
        grid, block = tile_grid(*x.shape[-2:], batch=count_matrices(x))
        device.launch(_module(x, [shifts]), "octaves", grid, block, args)
    return out
