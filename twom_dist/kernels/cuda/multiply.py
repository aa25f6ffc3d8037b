"""The residues of a tile: which products are computed, and by which kernels.

If none of our kernels multiplies, cuBLAS does, and requantise.cu follows each call.
"""

from math import prod

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from . import tables, tuning
from .cublas import (
    ALIGNMENT,
    Batch,
    align,
    choose_widened_k,
    cut_sums,
    group_products,
    largest_k,
)
from .device import CudaDevice
from .launch import line_grid, square_grid, tile_grid, triangle_arg
from .planes import CudaEncoded, PlaneProducts
from .products import deriving_pays, multiply_fused
from .quarters import multiply_in_quarters, takes_quarters
from .samples import multiply_samples
from .sources import module_for
from .workspace import sums_bytes


class CudaResidues:
    """Launches that make residues, or add them."""

    device: CudaDevice

    def multiply(
        self,
        left: CudaEncoded,
        right: CudaEncoded,
        system: ResidueSystem,
        before: Array | None = None,
        *,
        overwrite: bool = False,
        hermitian: bool = False,
        triangle: Uplo = "full",
    ) -> Array:
        """Multiply and reduce in one pass, or by cuBLAS and a second one."""
        device, (m, n, k) = self.device, (left.rows, right.rows, left.k)
        # Rows are padded to multiples of 16: no kernel meets a ragged one.
        shape = (system.num_residues, *left.stack, m, align(n))
        shape = shape if before is None else before.shape
        dtype = system.residue_dtype
        if 0 in (m, n, k, *left.stack):
            return device.full(shape, dtype) if before is None else before
        residues: Array = before if overwrite else device.empty(shape, dtype)
        if system.wraps:
            return multiply_samples(
                device, left, right, system, residues, before, triangle
            )
        quarters = not left.stack and takes_quarters(device, system, (m, n, k))
        fused = tuning.tuning_for(device.capability()).fuses((m, n, k))
        task = PlaneProducts(left, right, system, residues, before)
        multiply_planes(device, task, hermitian, triangle, quarters, fused)
        return residues

    def add_residues(self, x: Array, y: Array, system: ResidueSystem) -> Array:
        """Add bytes, 16 a thread."""
        if system.wraps:
            return x + y
        out = self.device.empty(x.shape, np.int8)
        if out.size:
            lines = out[0].size // 16
            table = self.device.constant(tables.addition_table(system))
            grid, args = line_grid(lines, len(out)), (x, y, out, lines, table)
            self.device.launch(module_for("combine"), "add_residues", *grid, args)
        return out


def multiply_planes(
    device: CudaDevice,
    task: PlaneProducts,
    hermitian: bool,
    triangle: Uplo,
    quarters: bool,
    fused: bool,
) -> None:
    """Write the residues of all products, or of those that follow from no other.

    `quarters`: by Winograd's algorithm; `fused`: see `Tuning.fuses`.
    """
    system = task.system
    if fused and hermitian and triangle != "full":
        # Nothing can be derived of sums that were made of one triangle.
        hermitian = task.before is None and (
            quarters or deriving_pays(device, system, task.right.rows, task.left.k)
        )
    task = task._replace(own=system.own_products(hermitian))
    wanted = "full" if hermitian else triangle
    if quarters and wanted == "full":
        multiply_in_quarters(device, task)
    elif fused:
        multiply_fused(device, task, wanted)
    else:
        multiply_products(device, task)
    if hermitian and len(task.residues) > len(task.own):
        _combine_mirrors(device, system, task.residues, triangle)


def _combine_mirrors(
    device: CudaDevice, system: ResidueSystem, residues: Array, triangle: Uplo
) -> None:
    """Derive a triangle of the products of ``X X^H`` that follow from others."""
    (_, *stack, n, width), table = residues.shape, tables.mirror_table(system)
    quarter = -(-n // 4)
    grid = square_grid(quarter, quarter, prod(stack), batch=len(table))
    args = residues, n, width, device.constant(table), triangle_arg(triangle)
    device.launch(module_for("combine"), "combine", *grid, args)


def multiply_products(device: CudaDevice, task: PlaneProducts) -> None:
    """Multiply the products `own`, by as many columns at a time as their sums allow."""
    left, right, system, residues, before, own = task
    m, n, k, count = left.rows, right.rows, align(left.k), prod(left.stack)
    residues = residues.reshape(len(residues), count, *residues.shape[-2:])
    before = None if before is None else before.reshape(residues.shape)
    element = device.element()
    widened_k = choose_widened_k(system, left.k, element)
    cut = cut_sums(m, n, sums_bytes(device.capability()), count, widened_k)
    # Planes of a stack lie at constant distances where they are neighbours.
    only, orders = 1 if count > 1 else None, (left.order, right.order)
    table = tables.requantise_table(system)
    batches = [*group_products(system.products, own, *orders, cut.products, only)]
    most = cut.matrices * max(len(batch.products) for batch in batches)
    height, width = align(min(m, cut.rows)), align(n)
    sums = device.empty((most, height, width), np.int32)
    floats, found, wide = element == "float16", sums, [None, None]
    if floats:
        found = sums.view(np.float32)
        sizes = most * height * widened_k, most * width * widened_k
        wide = [device.empty((size,), np.float16) for size in sizes]
    for batch in batches:
        largest = largest_k((system.products[q].p for q in batch.products), element)
        for matrices in _slices(count, cut.matrices):
            x = _list_planes(left, batch.left, batch, matrices)
            y = _list_planes(right, batch.right, batch, matrices)
            for columns in _slices(k, largest):
                narrow = _widen(device, y[:, :width, columns], wide[1])
                for rows in _slices(m, cut.rows):
                    # With the zeros that pad them: tensor cores like multiples of 16.
                    stop = rows.start + align(rows.stop - rows.start)
                    tall = _widen(device, x[:, rows.start : stop, columns], wide[0])
                    device.multiply(tall, narrow, found[: len(tall), : tall.shape[1]])
                    old = residues if columns.start > 0 else before
                    old = None if old is None else old[:, matrices, rows]
                    new = residues[:, matrices, rows]
                    _requantise(device, table, sums, floats, old, new, batch)


def _requantise(
    device: CudaDevice,
    table: Array,
    sums: Array,
    floats: bool,
    old: Array | None,
    own: Array,
    batch: Batch,
) -> None:
    """Reduce the sums of rows of a batch of products, with the old residues.

    `floats`: whether the sums, of 32 bits in any case, are float32.
    """
    _, count, m, width = own.shape
    args = (
        *(sums, sums.shape[2], sums.strides[0] // 4, old, own),
        *(own.strides[2], own.strides[0], m, device.constant(table)),
        device.constant(tables.product_indices(batch.products)),
        *(floats, count, own.strides[1]),
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


def _list_planes(side: CudaEncoded, first: int, batch: Batch, matrices: slice) -> Array:
    """View the planes of a batch as (planes x matrices, padded rows, padded k)."""
    step = max(1, batch.step)
    planes = slice(first, first + (len(batch.products) - 1) * step + 1, step)
    x = side.by_matrix()[planes, matrices]
    return x.reshape(-1, *x.shape[2:])  # at constant distances: no copy
