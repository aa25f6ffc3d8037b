"""The products of a tile's planes: cuBLAS calls, each followed by a requantisation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from . import tables
from .device import CudaDevice
from .encoded import CudaEncoded
from .int8_gemm import (
    ALIGNMENT,
    Batch,
    Cut,
    align,
    choose_widened_k,
    cut_sums,
    group_products,
    largest_k,
)
from .launch import tile_grid
from .sources import module_for
from .tuning import Element
from .workspace import sums_bytes


@dataclass(frozen=True)
class _Buffers:
    """Memory of one call: sums of 32 bits; planes in float16, or None for int8."""

    sums: Array
    left: Array | None = None
    right: Array | None = None

    @property
    def element(self) -> Element:
        """The operands of a product."""
        return "int8" if self.left is None else "float16"


def multiply_products(
    device: CudaDevice,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    own: Sequence[int],
    before: Array | None,
) -> None:
    """Multiply the products `own`, and add residues of their shape."""
    m, n, count = left.rows, right.rows, prod(left.stack)
    residues = residues.reshape(len(residues), count, *residues.shape[-2:])
    old = None if before is None else before.reshape(residues.shape)
    element = device.element()
    widened_k = choose_widened_k(system, left.k, element)
    cut = cut_sums(m, n, sums_bytes(device.capability()), count, widened_k)
    # Planes of a stack lie at constant distances where they are neighbours.
    orders = left.order, right.order
    batches = group_products(
        system.products, own, *orders, cut.products, 1 if count > 1 else None
    )
    most = cut.matrices * max(len(batch.products) for batch in batches)
    rows = align(min(m, cut.rows))
    buffers = _Buffers(device.empty((most, rows, align(n)), np.int32))
    if element == "float16":
        sizes = most * rows * widened_k, most * align(n) * widened_k
        planes = (device.empty((size,), np.float16) for size in sizes)
        buffers = _Buffers(buffers.sums, *planes)
    for batch in batches:
        given = left, right, system, residues, batch, cut, buffers, old
        _multiply_batch(device, *given)


def _multiply_batch(
    device: CudaDevice,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    batch: Batch,
    cut: Cut,
    buffers: _Buffers,
    before: Array | None,
) -> None:
    """Multiply by as many columns at a time as their sums allow."""
    m, n, k = left.rows, right.rows, align(left.k)
    multiply, sums = device.multiply_int8, buffers.sums
    if buffers.element == "float16":
        multiply, sums = device.multiply_float16, sums.view(np.float32)
    moduli = (system.products[q].p for q in batch.products)
    largest = largest_k(moduli, buffers.element)
    for matrices in _slices(residues.shape[1], cut.matrices):
        x = _list_planes(left, batch.left, batch, matrices)
        y = _list_planes(right, batch.right, batch, matrices)
        for columns in _slices(k, largest):
            narrow = _widen(device, y[:, : align(n), columns], buffers.right)
            for rows in _slices(m, cut.rows):
                # With the zeros that pad them: tensor cores like multiples of 16.
                stop = rows.start + align(rows.stop - rows.start)
                tall = _widen(device, x[:, rows.start : stop, columns], buffers.left)
                multiply(tall, narrow, sums[: len(tall), : tall.shape[1]])
                own = residues[:, matrices, rows]
                old = residues if columns.start > 0 else before
                old = None if old is None else old[:, matrices, rows]
                _requantise(device, system, buffers, old, own, batch)


def _requantise(
    device: CudaDevice,
    system: ResidueSystem,
    buffers: _Buffers,
    old: Array | None,
    own: Array,
    batch: Batch,
) -> None:
    """Reduce the sums of rows of a batch of products, with the old residues."""
    sums, (_, count, m, width) = buffers.sums, own.shape
    args = (
        *(sums, sums.shape[2], sums.strides[0] // 4, old, own),
        *(own.strides[2], own.strides[0], m),
        device.constant(tables.requantise_table(system)),
        device.constant(product_indices(batch.products)),
        *(buffers.element == "float16", count, own.strides[1]),
    )
    grid = tile_grid(m, width, 4, count * len(batch.products))
    device.launch(module_for("requantise"), "requantise", *grid, args)


def _widen(device: CudaDevice, planes: Array, out: Array | None) -> Array:
    """Convert planes (count, rows, k) to float16 where there is memory for it.

    All else that holds planes keeps them in int8. Made as they are needed, those of a
    product cost 3 bytes an entry, 6 n^2 beside 2 n^3 operations: on a B300, at 8 TB/s
    and 2.2 PFLOP/s, a tenth of its time at n = 8192.
    """
    if out is None:
        return planes
    (count, rows, k), (plane_stride, row_stride, _) = planes.shape, planes.strides
    given = planes, plane_stride, row_stride, out, rows, k
    grid = tile_grid(rows, k, ALIGNMENT, count)
    device.launch(module_for("requantise"), "widen", *grid, given)
    return out[: count * rows * k].reshape(planes.shape)


def _slices(length: int, step: int) -> list[slice]:
    return [slice(lo, min(length, lo + step)) for lo in range(0, length, step)]


@cache
def product_indices(products: tuple[int, ...]) -> Array:
    """Tabulate products, or planes, as the kernels read them."""
    return np.array(products, np.int32)


def _list_planes(side: CudaEncoded, first: int, batch: Batch, matrices: slice) -> Array:
    """View the planes of a batch as (planes x matrices, padded rows, padded k)."""
    step = max(1, batch.step)
    planes = slice(first, first + (len(batch.products) - 1) * step + 1, step)
    x = side.by_matrix()[planes, matrices]
    return x.reshape(-1, *x.shape[2:])  # at constant distances: no copy
