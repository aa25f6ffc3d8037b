"""The int8 products of a tile: sums reduced where they are made.

One launch takes as many squares of all products as fit `tuning.LAUNCH_OPERATIONS`. A
launch has whole waves of them, so that no multiprocessor is idle at its end.
"""

from functools import cache
from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from . import tables, tuning
from .encoded import CudaEncoded
from .hopper import LINE, ROW_GROUP
from .launch import Device, remember, size_args, triangle_arg
from .sources import module_for

# The side of what a cluster of two blocks of products.cu makes, or a block of
# products_mma.cu; and threads of a block.
_SIDES: dict[tuning.Products, int] = {"wgmma": 256, "mma": 128}
_PARTS: tuple[Uplo, Uplo] = ("full", "lower")
_THREADS: dict[tuning.Products, int] = {"wgmma": 384, "mma": 128}
# Squares that a multiprocessor makes at a time.
_AT_A_TIME: dict[tuning.Products, float] = {"wgmma": 0.5, "mma": 2}
# Stages of tiles; those of ring.cuh are aligned besides.
_SHARED_BYTES: dict[tuning.Products, int] = {
    "wgmma": 4 * 3 * 128 * 128 + 1024,
    "mma": 3 * 2 * 128 * 64,
}


def multiply_fused(
    device: Device,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    own: tuple[int, ...],
    before: Array | None,
    triangle: Uplo,
) -> None:
    """Multiply a triangle of the products `own`, and add residues of their shape."""
    jobs = _tabulate(system, own, left.order, right.order)
    shape, count = (left.rows, right.rows), prod(left.stack)
    planes = left.planes, right.planes
    args = (device, *planes, jobs, system, shape, residues, before, triangle)
    launch_products(*args, count)


def launch_products(
    device: Device,
    x: Array,
    y: Array,
    jobs: Array,
    system: ResidueSystem,
    shape: tuple[int, int],
    residues: Array,
    before: Array | None,
    triangle: Uplo,
    count: int = 1,
) -> None:
    """Launch products.cu or products_mma.cu: planes (planes, padded rows, padded k).

    `count`: matrices of a stack, one below the other in each plane.
    """
    own = tuning.tuning_for(device.capability()).products
    rows = x.shape[1] // count, y.shape[1] // count
    squares = count * len(jobs) * _count_squares(*shape, triangle, _SIDES[own])
    planes: tuple[Any, ...] = x, y
    if own == "wgmma":
        planes = tuple(device.map_planes(device.address(t), t.shape) for t in planes)
        sizes = _count_args(*rows, x.shape[2])
    else:
        sizes = size_args(*rows, x.shape[2])
    args = (
        *(*planes, *sizes, device.constant(jobs), np.int32(len(jobs))),
        *(device.constant(tables.requantise_table(system)), *size_args(*shape)),
        *(before, residues, *size_args(residues.strides[-2], residues.strides[0])),
        *(triangle_arg(triangle), np.int32(count)),
    )
    name = "products" if own == "wgmma" else "products_mma"
    wave = int(device.multiprocessors() * _AT_A_TIME[own])
    waves = _count_waves(own, x.shape[2])
    for first in range(0, squares, waves * wave):
        end = min(squares, first + waves * wave)
        blocks, part = end - first, size_args(first)
        if own == "wgmma":
            blocks, part = 2 * min(blocks, wave), size_args(first, end)
        given = (blocks, 1, 1), (_THREADS[own], 1, 1), (*args, *part)
        device.launch(module_for(name), name, *given, _SHARED_BYTES[own])


def _count_waves(own: tuning.Products, k_padded: int) -> int:
    """Count the squares, one after the other, that a launch may take."""
    square = 2 * _SIDES[own] ** 2 * k_padded
    most = tuning.LAUNCH_OPERATIONS[own] / _AT_A_TIME[own]
    return max(1, int(most / square))


@remember
def _count_args(x_rows: int, y_rows: int, k_padded: int) -> tuple[Any, ...]:
    """Count groups of rows of both operands, and steps along k, for products.cu."""
    counts = x_rows // ROW_GROUP, y_rows // ROW_GROUP, k_padded // LINE
    return tuple(map(np.int32, counts))


def _count_squares(m: int, n: int, triangle: Uplo, side: int) -> int:
    """Count the squares that are made of one product."""
    rows, columns = -(-m // side), -(-n // side)
    return rows * columns if triangle == "full" else rows * (rows + 1) // 2


def deriving_pays(
    products: tuning.Products, system: ResidueSystem, n: int, k: int
) -> bool:
    """Tell whether deriving products of ``X X^H`` from others pays.

    Instead of one triangle of all products the others are multiplied in full: where
    2M needs no squares beyond half, a triangle has those of its diagonal.
    """
    own, count = system.num_hermitian_products, system.num_products
    side = _SIDES[products]
    whole, half = (_count_squares(n, n, part, side) for part in _PARTS)
    derived = (count - own) * whole * tuning.DERIVED_K
    return derived + own * whole * k < count * half * k


@cache
def _tabulate(
    system: ResidueSystem,
    own: tuple[int, ...],
    left: tuple[int, ...],
    right: tuple[int, ...],
) -> Array:
    """Tabulate planes, product and its reduction as the kernels read them."""
    given = [(q, system.products[q]) for q in own]
    jobs = [(left[product.left], right[product.right], q, q) for q, product in given]
    return np.array(jobs, np.int32)
