"""The int8 products of a tile in one launch: sums reduced where they are made."""

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

# In products.cu: the side that a cluster of two blocks makes, and threads of a block.
_SIDE, _THREADS = 256, 384
# The stages of ring.cuh, and what aligns them.
_SHARED_BYTES = 4 * 3 * 128 * 128 + 1024


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
    """Launch products.cu: jobs of planes (planes, padded rows, padded k).

    `count`: matrices of a stack, one below the other in each plane.
    """
    rows = x.shape[1] // count, y.shape[1] // count
    sizes = _size_args(*rows, x.shape[2], len(jobs))
    args = (
        *(device.map_planes(device.address(t), t.shape) for t in (x, y)),
        *(*sizes[:3], device.constant(jobs), sizes[3]),
        *(device.constant(tables.requantise_table(system)), *size_args(*shape)),
        *(before, residues, *size_args(residues.strides[-2], residues.strides[0])),
        *(triangle_arg(triangle), np.int32(count)),
    )
    clusters = count * len(jobs) * _count_squares(*shape, triangle)
    grid = 2 * min(clusters, device.multiprocessors() // 2)
    module, block = module_for("products"), (_THREADS, 1, 1)
    device.launch(module, "products", (grid, 1, 1), block, args, _SHARED_BYTES)


@remember
def _size_args(
    x_rows: int, y_rows: int, k_padded: int, jobs: int
) -> tuple[Any, Any, Any, Any]:
    """Count groups of rows of both operands, steps along k, and jobs."""
    groups = np.int32(x_rows // ROW_GROUP), np.int32(y_rows // ROW_GROUP)
    return *groups, np.int32(k_padded // LINE), np.int32(jobs)


def _count_squares(m: int, n: int, triangle: Uplo) -> int:
    """Count what products.cu makes of one product."""
    rows, columns = -(-m // _SIDE), -(-n // _SIDE)
    return rows * columns if triangle == "full" else rows * (rows + 1) // 2


def deriving_pays(system: ResidueSystem, n: int, k: int) -> bool:
    """Tell whether deriving products of ``X X^H`` from others pays.

    Instead of one triangle of all products the others are multiplied in full: where
    2M needs no squares beyond half, a triangle has those of its diagonal.
    """
    own, count = system.num_hermitian_products, system.num_products
    whole, half = _count_squares(n, n, "full"), _count_squares(n, n, "lower")
    derived = (count - own) * whole * tuning.DERIVED_K
    return derived + own * whole * k < count * half * k


@cache
def _tabulate(
    system: ResidueSystem,
    own: tuple[int, ...],
    left: tuple[int, ...],
    right: tuple[int, ...],
) -> Array:
    """Tabulate planes, product and its reduction as products.cu reads them."""
    given = [(q, system.products[q]) for q in own]
    jobs = [(left[product.left], right[product.right], q, q) for q, product in given]
    return np.array(jobs, np.int32)
