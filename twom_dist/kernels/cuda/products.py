"""The int8 products of a tile in one launch: sums reduced where they are made."""

from functools import cache

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from . import tables, tuning
from .encoded import CudaEncoded
from .hopper import LINE, ROW_GROUP
from .launch import Device, triangle_arg
from .sources import module_for

# Of products.cu: side of what a cluster of two blocks makes, threads of a block.
_SIDE, _THREADS = 256, 384


def multiply_fused(
    device: Device,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    own: tuple[int, ...],
    add: bool,
    triangle: Uplo,
) -> None:
    """Multiply a triangle of the products `own`, or add to what is there."""
    m, n, k_padded = left.rows, right.rows, left.planes.shape[2]
    jobs = _tabulate(system, own, left.order, right.order)
    args = (
        *(device.map_planes(left.planes), device.map_planes(right.planes)),
        *(np.int32(x.planes.shape[1] // ROW_GROUP) for x in (left, right)),
        np.int32(k_padded // LINE),
        *(device.constant(jobs), np.int32(len(jobs))),
        *(device.constant(tables.requantise_table(system)), np.int64(m), np.int64(n)),
        *(residues, np.int64(residues.strides[1]), np.int64(residues.strides[0])),
        *(np.int32(add), triangle_arg(triangle)),
    )
    clusters = len(jobs) * _count_squares(m, n, triangle)
    grid = 2 * min(clusters, device.multiprocessors() // 2)
    device.launch(
        module_for("products"), "products", (grid, 1, 1), (_THREADS, 1, 1), args
    )


def _count_squares(m: int, n: int, triangle: Uplo) -> int:
    """Count what products.cu makes of one product."""
    rows, columns = -(-m // _SIDE), -(-n // _SIDE)
    return rows * columns if triangle == "full" else rows * (rows + 1) // 2


def deriving_pays(system: ResidueSystem, n: int, k: int) -> bool:
    """Whether products of ``X X^H`` that follow from others had better do so.

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
    """Tabulate planes and product of each job as products.cu reads them."""
    given = [(q, system.products[q]) for q in own]
    jobs = [(left[product.left], right[product.right], q, 0) for q, product in given]
    return np.array(jobs, np.int32)
