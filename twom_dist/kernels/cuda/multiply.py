"""The int8 products of a tile: cuBLAS calls, each followed by its requantisation."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from . import tables
from .encoded import CudaEncoded
from .int8_gemm import LARGEST_K, Batch, align, cut_sums, group_products
from .launch import Device, square_grid, tile_grid, triangle_arg
from .sources import module_for
from .workspace import sums_bytes


def multiply_products(
    device: Device,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    own: Sequence[int],
    add: bool,
) -> None:
    """Multiply the products `own` into their residues, or add to what is there."""
    m, n = left.rows, right.rows
    cut = cut_sums(m, n, sums_bytes(device.capability()))
    batches = group_products(
        system.products, own, left.order, right.order, cut.products
    )
    most = max(len(batch.products) for batch in batches)
    sums = device.empty((most, align(min(m, cut.rows)), align(n)), np.int32)
    for batch in batches:
        for lo in range(0, m, cut.rows):
            rows = slice(lo, min(m, lo + cut.rows))
            _multiply_piece(
                device, left, right, system, residues, batch, rows, sums, add
            )


def _multiply_piece(
    device: Device,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    batch: Batch,
    rows: slice,
    sums: Array,
    add: bool,
) -> None:
    """Multiply rows of a batch of products, LARGEST_K columns at a time."""
    count, m = len(batch.products), rows.stop - rows.start
    n, k_padded = right.rows, align(left.k)
    # With the zeros that pad both: tensor cores like all sizes in multiples of 16.
    padded = slice(rows.start, rows.start + align(m))
    x = left.planes[_planes(batch.left, batch), padded]
    y = right.planes[_planes(batch.right, batch), : align(n)]
    target = sums[:count, : align(m)]
    for k_lo in range(0, k_padded, LARGEST_K):
        piece = slice(k_lo, min(k_padded, k_lo + LARGEST_K))
        device.multiply_int8(x[:, :, piece], y[:, :, piece], target)
        args: tuple[Any, ...] = (
            *(target, np.int64(sums.shape[2]), np.int64(sums.strides[0] // 4)),
            *(residues[:, rows], np.int64(residues.strides[1])),
            *(np.int64(residues.strides[0]), np.int64(m)),
            device.constant(tables.requantise_table(system)),
            device.constant(product_indices(batch.products)),
            np.int32(add or k_lo > 0),
        )
        grid = tile_grid(m, residues.shape[2], 4, count)
        device.launch(module_for("requantise"), "requantise", *grid, args)


@cache
def product_indices(products: tuple[int, ...]) -> Array:
    """Tabulate products as the kernels read them."""
    return np.array(products, np.int32)


def _planes(first: int, batch: Batch) -> slice:
    step = max(1, batch.step)
    return slice(first, first + (len(batch.products) - 1) * step + 1, step)


def combine_mirrors(
    device: Device, system: ResidueSystem, residues: Array, triangle: Uplo
) -> None:
    """Derive a triangle of the products of ``X X^H`` that follow from others."""
    n, table = residues.shape[1], tables.mirror_table(system)
    if len(table) == 0:  # real moduli have one product each
        return
    grid = square_grid(-(-n // 4), -(-n // 4), len(table))
    row_stride = np.int64(residues.shape[2])
    mirrors = device.constant(table)
    args = residues, np.int64(n), row_stride, mirrors, triangle_arg(triangle)
    device.launch(module_for("combine"), "combine", *grid, args)
