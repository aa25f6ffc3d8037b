"""The residues of a tile: which products are multiplied, and by which kernels."""

from math import prod

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from . import tables, tuning
from .device import CudaDevice
from .encoded import CudaEncoded
from .int8_gemm import align
from .launch import line_grid, square_grid, triangle_arg
from .multiply import multiply_products
from .products import deriving_pays, multiply_fused
from .quarters import choose_levels, multiply_in_quarters
from .sources import module_for


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
        shape = (system.num_products, *left.stack, m, align(n))
        shape = shape if before is None else before.shape
        if 0 in (m, n, k, *left.stack):
            return device.filled(shape, np.int8) if before is None else before
        residues: Array = before if overwrite else device.empty(shape, np.int8)
        levels = 0 if left.stack else choose_levels(device, system, (m, n, k))
        planes = left, right, system, residues
        multiply_planes(device, *planes, before, hermitian, triangle, levels)
        return residues

    def add_residues(self, x: Array, y: Array, system: ResidueSystem) -> Array:
        """Add bytes, 16 a thread."""
        out = self.device.empty(x.shape, np.int8)
        if out.size:
            lines = out[0].size // 16
            table = self.device.constant(tables.addition_table(system))
            grid, args = line_grid(lines, len(out)), (x, y, out, lines, table)
            self.device.launch(module_for("combine"), "add_residues", *grid, args)
        return out


def multiply_planes(
    device: CudaDevice,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None,
    hermitian: bool,
    triangle: Uplo,
    levels: int,
) -> None:
    """Write the residues of products, none of which is empty.

    `residues`: (products, ..., m, n or more); `levels`: of Winograd's algorithm.
    """
    fused = tuning.tuning_for(device.capability()).fused
    if fused and hermitian and triangle != "full":
        # Nothing can be derived of sums that were made of one triangle.
        hermitian = before is None and (
            levels > 0 or deriving_pays(device, system, right.rows, left.k)
        )
    own = tables.own_products(system, hermitian)
    args = (device, left, right, system, residues, own, before)
    wanted = "full" if hermitian else triangle
    if levels > 0 and wanted == "full":
        multiply_in_quarters(*args, levels)
    elif fused:
        multiply_fused(*args, wanted)
    else:
        multiply_products(*args)
    if hermitian:
        _combine_mirrors(device, system, residues, triangle)


def _combine_mirrors(
    device: CudaDevice, system: ResidueSystem, residues: Array, triangle: Uplo
) -> None:
    """Derive a triangle of the products of ``X X^H`` that follow from others."""
    (_, *stack, n, width), table = residues.shape, tables.mirror_table(system)
    if len(table) == 0:  # real moduli have one product each
        return
    quarter = -(-n // 4)
    grid = square_grid(quarter, quarter, prod(stack), len(table))
    args = residues, n, width, device.constant(table), triangle_arg(triangle)
    device.launch(module_for("combine"), "combine", *grid, args)
