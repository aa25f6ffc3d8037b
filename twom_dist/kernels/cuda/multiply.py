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
from .launch import Device, over_stack, size_args, square_grid, tile_grid, triangle_arg
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
    """Multiply the products `own` into their residues, or add to what is there.

    `residues`: (products, matrices, m, n or more).
    """
    m, n, count = left.rows, right.rows, residues.shape[1]
    cut = cut_sums(m, n, sums_bytes(device.capability()), count)
    # Planes of a stack lie at constant distances where they are neighbours.
    orders = left.order, right.order
    batches = group_products(
        system.products, own, *orders, cut.products, 1 if count > 1 else None
    )
    most = max(len(batch.products) for batch in batches)
    shape = most * cut.matrices, align(min(m, cut.rows)), align(n)
    sums = device.empty(shape, np.int32)
    pieces = [
        (slice(b, min(count, b + cut.matrices)), slice(lo, min(m, lo + cut.rows)))
        for b in range(0, count, cut.matrices)
        for lo in range(0, m, cut.rows)
    ]
    for batch in batches:
        for matrices, rows in pieces:
            given = left, right, system, residues, batch, matrices, rows, sums, add
            _multiply_piece(device, *given)


def _multiply_piece(
    device: Device,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    batch: Batch,
    matrices: slice,
    rows: slice,
    sums: Array,
    add: bool,
) -> None:
    """Multiply rows of a batch of products, LARGEST_K columns at a time."""
    m, n, k_padded = rows.stop - rows.start, right.rows, align(left.k)
    # With the zeros that pad both: tensor cores like all sizes in multiples of 16.
    padded = slice(rows.start, rows.start + align(m))
    x = left.by_matrix()[_planes(batch.left, batch), matrices, padded]
    y = right.by_matrix()[_planes(batch.right, batch), matrices, : align(n)]
    # At constant distances: no copies.
    x, y = (t.reshape(-1, *t.shape[2:]) for t in (x, y))
    target = sums[: len(x), : align(m)]
    own = residues[:, matrices, rows]
    for k_lo in range(0, k_padded, LARGEST_K):
        piece = slice(k_lo, min(k_padded, k_lo + LARGEST_K))
        device.multiply_int8(x[:, :, piece], y[:, :, piece], target)
        args: tuple[Any, ...] = (
            *(target, np.int64(sums.shape[2]), np.int64(sums.strides[0] // 4)),
            *(own, np.int64(own.strides[2])),
            *(np.int64(own.strides[0]), np.int64(m)),
            device.constant(tables.requantise_table(system)),
            device.constant(product_indices(batch.products)),
            *(np.int32(add or k_lo > 0), np.int32(own.shape[1])),
            np.int64(own.strides[1]),
        )
        grid = tile_grid(m, own.shape[3], 4, len(x))
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
    """Derive a triangle of the products of ``X X^H`` that follow from others.

    `residues`: (products, matrices, n, n or more).
    """
    (_, count, n, width), table = residues.shape, tables.mirror_table(system)
    if len(table) == 0:  # real moduli have one product each
        return
    grid, block = square_grid(-(-n // 4), -(-n // 4), len(table))
    mirrors = device.constant(table)
    args = residues, *size_args(n, width), mirrors, triangle_arg(triangle)
    module = module_for("combine")
    device.launch(module, "combine", over_stack(grid, count), block, args)
