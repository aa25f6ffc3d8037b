"""Launches: what a device must do, and the grids of threads that lie on a matrix."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np

from ...errors import KernelError
from ...typing import Array, Uplo
from . import tuning
from .sources import Module
from .tables import scalar_mode
from .tuning import Element

Triple = tuple[int, int, int]
# Shapes and dtypes of arrays that are allocated together.
Parts = tuple[tuple[tuple[int, ...], Any], ...]


class Device(Protocol):
    """The device as the engine uses it; `CudaDevice` is the one on CuPy."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Allocate."""
        ...

    def filled(self, shape: tuple[int, ...], dtype: Any, byte: int = 0) -> Array:
        """Allocate, every byte alike."""
        ...

    def empty_together(self, parts: Parts) -> list[Array]:
        """Allocate several arrays at once, at multiples of 512 bytes."""
        ...

    def filled_together(self, parts: Parts, byte: int) -> list[Array]:
        """Allocate several arrays at once, every byte alike."""
        ...

    def split(self, whole: Array, parts: Parts) -> list[Array]:
        """View the arrays of one allocation, from its beginning on."""
        ...

    def send(self, x: Array) -> Array:
        """Copy a small array of the host; what launches next finds it."""
        ...

    def fetch(
        self, arrays: Sequence[Array], meanwhile: Callable[[], object] | None = None
    ) -> list[Array]:
        """Copy arrays of one allocation by one call, and wait; `meanwhile` before."""
        ...

    def constant(self, table: Array) -> Array:
        """Copy a table of the host, once."""
        ...

    def launch(
        self,
        module: Module,
        name: str,
        grid: Triple,
        block: Triple,
        args: Sequence[Any],
        shared: int = 0,
    ) -> None:
        """Launch a kernel: arrays, None, and NumPy scalars of the parameters' types.

        `shared`: bytes of shared memory that a block takes beside its kernel's own.
        """
        ...

    def multiply_int8(self, x: Array, y: Array, sums: Array) -> None:
        """sums[b] = x[b] y[b]^T in int32; k and the distance of rows 16-fold."""
        ...

    def multiply_float16(self, x: Array, y: Array, sums: Array) -> None:
        """Do that in float32, of integers in float16; no partial sum reaches 2^24."""
        ...

    def launch_packed(
        self,
        module: Module,
        name: str,
        grid: Triple,
        block: Triple,
        data: bytes | bytearray,
        offsets: tuple[int, ...],
        shared: int = 0,
    ) -> None:
        """Launch a kernel whose arguments `packing` has packed."""
        ...

    def address(self, x: Array) -> int:
        """Return where an array begins; refuse what a kernel could not read."""
        ...

    def map_planes(self, address: int, shape: tuple[int, int, int]) -> Any:
        """Describe planes to the copies of products.cu."""
        ...

    def total_bytes(self) -> int:
        """Memory of the device."""
        ...

    def free_bytes(self) -> int | None:
        """Count what can still be allocated, or None where nobody can tell."""
        ...

    def shared_bytes(self) -> int:
        """Shared memory that a block can have."""
        ...

    def multiprocessors(self) -> int:
        """Count the multiprocessors."""
        ...

    def capability(self) -> int:
        """Compute capability, such as 90."""
        ...

    def number(self) -> int:
        """Tell the current device from others."""
        ...

    def element(self) -> Element:
        """Choose what `multiply_products` multiplies."""
        ...

    def exact_element(self) -> Element:
        """Choose what the device's own products multiply exactly."""
        ...

    def stream(self) -> AbstractContextManager[Any]:
        """Enter a stream of this thread's own."""
        ...

    def stream_id(self) -> Any:
        """Name the stream that this thread launches on."""
        ...

    def record(self) -> Any:
        """Return an event: what this thread has launched so far is done."""
        ...

    def wait_for(self, event: Any) -> None:
        """Have the device wait for an event before what this thread launches next."""
        ...

    def synchronize(self) -> None:
        """Wait for what this thread has launched."""
        ...


# What the same arguments give, for loops over small products: 103 us of Python became
# 90 (64 x 64, a device that does nothing; AMD EPYC, 2 cores).
remember = lru_cache(maxsize=1024)

_BLOCK: Triple = (32, 8, 1)
_LARGEST_GRID_Y = 65535
# Matrices of a stack: blocks that a grid may have in y and z.
LARGEST_STACK = 65535


def strides(x: Array) -> tuple[Any, Any]:
    """Strides of the matrices in elements, as the kernels take them."""
    return _strides(x.dtype, x.shape[-2:], x.strides[-2:])


def stack_stride(x: Array) -> Any:
    """Distance of the matrices of a stack (matrices, rows, columns), in elements."""
    return np.int64(x.strides[0] // x.itemsize if x.ndim > 2 else 0)


def count_matrices(x: Array) -> int:
    """Count the matrices of a stack; 1 if it is none."""
    return prod(x.shape[:-2])


def listed(x: Array) -> Array:
    """View (..., rows, columns) with one axis or none in front, or copy."""
    return x if x.ndim <= 3 else x.reshape(count_matrices(x), *x.shape[-2:])


def tall(x: Array) -> Array:
    """View a stack as the rows of all its matrices, or copy."""
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


def over_stack(grid: Triple, count: int) -> Triple:
    """Repeat a grid for each matrix of a stack, in z."""
    return grid[0], grid[1], count


@remember
def _strides(
    dtype: np.dtype[Any], shape: tuple[int, int], strides: tuple[int, int]
) -> tuple[Any, Any]:
    size, (rows, columns), (down, right) = dtype.itemsize, shape, strides
    if (rows > 1 and down % size) or (columns > 1 and right % size):
        raise KernelError(
            f"a {dtype} array has strides of {strides} bytes, which are not "
            f"multiples of its {size}",
            "Copy the array it is a view of, then take the view",
            "strides",
        )
    return np.int64(down // size), np.int64(right // size)


def operand_args(x: Array) -> tuple[Any, ...]:
    """List the arguments with which every pass over an operand begins."""
    return x, np.int64(x.shape[-2]), np.int64(x.shape[-1]), *strides(x)


@remember
def scalar_args(factor: complex) -> tuple[Any, ...]:
    """Return the mode in which a scalar multiplies, and its parts."""
    factor = complex(factor)
    mode = np.int32(scalar_mode(factor))
    return mode, np.float64(factor.real), np.float64(factor.imag)


@remember
def triangle_arg(triangle: Uplo) -> Any:
    """Which elements are wanted, as arithmetic.cuh counts them."""
    return np.int32(("full", "lower", "upper").index(triangle))


@remember
def size_args(*sizes: int) -> tuple[Any, ...]:
    """Sizes as the kernels take them."""
    return tuple(map(np.int64, sizes))


@remember
def flag_args(*flags: bool) -> tuple[Any, ...]:
    """Yes or no as the kernels take it."""
    return tuple(map(np.int32, flags))


def closing_args(conjugate: bool, uplo: Uplo) -> tuple[Any, ...]:
    """Describe the closing of a tile: conjugated, from the upper one, both kept."""
    return flag_args(conjugate, uplo == "upper", uplo == "full")


def lies_across(x: Array) -> bool:
    """Tell whether neighbours in memory are neighbouring rows."""
    row, column = x.strides[-2:]
    return bool(abs(row) < abs(column))


@remember
def strip_grid(rows: int, k: int, across: bool) -> tuple[int, Triple, int]:
    """Count the blocks of a reduction along k; their threads, and the span of each.

    See ``Operand`` in elements.cuh.
    """
    rows_of_block, threads = (32, 8) if across else (8, 32)
    strip = tuning.STRIP
    while True:
        blocks = _count(rows, rows_of_block) * _count(k, strip * threads)
        if blocks >= tuning.STRIP_BLOCKS or strip <= tuning.SHORTEST_STRIP:
            return blocks, _BLOCK, strip * threads
        strip //= 2


@remember
def group_grid(
    rows: int, k_padded: int, across: bool
) -> tuple[Triple, Triple, tuple[Any, Any]]:
    """Grid, block and last arguments of a pass over K-major bytes.

    See ``Group`` in elements.cuh.
    """
    own = tuning.ROWS_ACROSS if across else tuning.ROWS_ALONG
    count = _count(rows, own) * _count(k_padded // 4, 256 // own)
    return (count, 1, 1), (256, 1, 1), (np.int32(across), np.int32(own))


@remember
def tile_grid(
    rows: int, columns: int, elements: int = 1, batch: int = 1
) -> tuple[Triple, Triple]:
    """Grid and block over a row-major tile, `elements` neighbours a thread."""
    x = _count(_count(columns, elements), _BLOCK[0])
    y = min(_LARGEST_GRID_Y, _count(rows, _BLOCK[1]))
    return (x, y, batch), _BLOCK


@remember
def square_grid(rows: int, columns: int, batch: int = 1) -> tuple[Triple, Triple]:
    """Grid and block over squares of 16 x 16; see ``Spot`` in arithmetic.cuh."""
    return (_count(columns, 16) * _count(rows, 16), batch, 1), _BLOCK


@remember
def closing_grid(n: int) -> tuple[Triple, Triple]:
    """Grid and block over the squares of decode_and_close.cu."""
    return (_count(n, 32), _count(n, 32), 1), _BLOCK


@remember
def fill_grid(rows: int, columns: int) -> tuple[Triple, Triple]:
    """Grid and block over the squares of fill.cu.

    A thread has 16 elements. On an H200 two kernels that looked for nothing to fill
    took 107 us at n = 4096 with one element a thread, and 63 with 32.
    """
    return (_count(columns, 64) * _count(rows, 64), 1, 1), _BLOCK


@remember
def part_offsets(parts: Parts) -> tuple[tuple[int, ...], int]:
    """Where each of several arrays begins in one allocation, and its bytes."""
    ends = [0]
    for shape, dtype in parts:
        size = prod(shape) * np.dtype(dtype).itemsize
        ends.append(ends[-1] + -(-size // 512) * 512)
    return tuple(ends[:-1]), ends[-1]


@remember
def line_grid(length: int) -> tuple[Triple, Triple]:
    """Grid and block over a vector."""
    return (_count(length, 256), 1, 1), (256, 1, 1)


def _count(length: int, piece: int) -> int:
    return -(-length // piece)
