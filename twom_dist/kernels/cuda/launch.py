"""Arguments of launches, and grids of threads that cover a matrix."""

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...errors import KernelError
from ...typing import Array, Uplo
from . import tuning

Triple = tuple[int, int, int]
Grid = tuple[Triple, Triple]  # blocks, and threads of a block
Parts = tuple[tuple[tuple[int, ...], Any], ...]  # shapes and dtypes, allocated at once

# What the same arguments give, for loops over small products: 103 us of Python became
# 90 (64 x 64, a device that does nothing; AMD EPYC, 2 cores).
remember = lru_cache(maxsize=1024)

BLOCK: Triple = (32, 8, 1)
LINE_BLOCK: Triple = (256, 1, 1)
_LARGEST_GRID_Y = 65535
LARGEST_STACK = 65535  # matrices of a stack: blocks that a grid may have in y and z


def operand(x: Array, span: int = 1) -> tuple[Any, ...]:
    """Describe an operand, or a stack with one axis, that is cut into strips."""
    return x, *x.shape[-2:], *strides(x), span, lies_across(x), stack_stride(x)


NO_OPERAND = None, 0, 0, 0, 0, 1, False, 0


def scalar(factor: complex) -> tuple[int, float, float]:
    """Return how a scalar multiplies, see scalars.cuh, and its parts."""
    factor = complex(factor)
    mode = 0 if factor == 0 else 1 if factor == 1 else 2 if factor.imag == 0 else 3
    return mode, factor.real, factor.imag


def matrix(x: Array | None) -> tuple[Any, ...]:
    """Describe a matrix, or a stack, that may be missing."""
    return (None, 0, 0, 0) if x is None else (x, *strides(x), stack_stride(x))


def triangle_arg(triangle: Uplo) -> int:
    """Which elements are wanted, as arithmetic.cuh counts them."""
    return ("full", "lower", "upper").index(triangle)


def strides(x: Array) -> tuple[int, int]:
    """Strides of the matrices in elements, as the kernels take them."""
    size, (rows, columns), (down, right) = x.itemsize, x.shape[-2:], x.strides[-2:]
    if (rows > 1 and down % size) or (columns > 1 and right % size):
        raise KernelError(
            f"a {x.dtype} array has strides of {(down, right)} bytes, which are not "
            f"multiples of its {size}",
            "Copy the array it is a view of, then take the view",
            "strides",
        )
    return down // size, right // size


def stack_stride(x: Array | None) -> int:
    """Distance of the matrices of a stack (matrices, rows, columns), in elements."""
    return 0 if x is None or x.ndim <= 2 else int(x.strides[0] // x.itemsize)


def lies_across(x: Array) -> bool:
    """Tell whether neighbours in memory are neighbouring rows."""
    row, column = x.strides[-2:]
    return bool(abs(row) < abs(column))


def count_matrices(x: Array) -> int:
    """Count the matrices of a stack; 1 if it is none."""
    return prod(x.shape[:-2])


def as_stack(x: Array) -> Array:
    """View (..., rows, columns) with one axis or none in front, or copy."""
    return x if x.ndim <= 3 else x.reshape(count_matrices(x), *x.shape[-2:])


@remember
def part_offsets(parts: Parts) -> tuple[tuple[int, ...], int]:
    """Where each of several arrays begins in one allocation, and its bytes."""
    ends = [0]
    for shape, dtype in parts:
        size = prod(shape) * np.dtype(dtype).itemsize
        ends.append(ends[-1] + -(-size // 512) * 512)
    return tuple(ends[:-1]), ends[-1]


@remember
def strip_grid(rows: int, k: int, across: bool) -> tuple[int, int]:
    """Count the blocks of a reduction along k, and the span of each.

    See ``Operand`` in elements.cuh.
    """
    rows_of_block, threads = (32, 8) if across else (8, 32)
    strip = tuning.STRIP
    while True:
        blocks = _count(rows, rows_of_block) * _count(k, strip * threads)
        if blocks >= tuning.STRIP_BLOCKS or strip <= tuning.SHORTEST_STRIP:
            return blocks, strip * threads
        strip //= 2


@remember
def tile_grid(rows: int, columns: int, elements: int = 1, batch: int = 1) -> Grid:
    """Grid and block over a row-major tile, `elements` neighbours a thread."""
    x = _count(_count(columns, elements), BLOCK[0])
    y = min(_LARGEST_GRID_Y, _count(rows, BLOCK[1]))
    return (x, y, batch), BLOCK


@remember
def square_grid(
    rows: int, columns: int, stack: int, side: int = 16, batch: int = 1
) -> Grid:
    """Grid and block over squares: those of 16 are ``Spot`` in arithmetic.cuh."""
    return (_count(columns, side) * _count(rows, side), batch, stack), BLOCK


def line_grid(length: int, batch: int = 1) -> Grid:
    """Grid and block over a vector."""
    return (_count(length, 256), batch, 1), LINE_BLOCK


def _count(length: int, piece: int) -> int:
    return -(-length // piece)
