"""The residues of a tile: which products are multiplied, and by which kernels."""

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from . import tables, tuning
from .encoded import CudaEncoded
from .launch import Device
from .multiply import combine_mirrors, multiply_products
from .products import deriving_pays, multiply_fused
from .quarters import choose_levels, multiply_in_quarters


def multiply_planes(
    device: Device,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None,
    hermitian: bool,
    triangle: Uplo,
) -> None:
    """Multiply and reduce in one pass, or by cuBLAS and a second one.

    `residues`: (products, ..., m, n or more), where the result of `Engine.multiply` is
    written; the others as there, and nothing empty.
    """
    m, n, k = left.rows, right.rows, left.k
    fused = tuning.tuning_for(device.capability()).fused
    levels = 0 if left.stack else choose_levels(device, system, (m, n, k))
    if fused and hermitian and triangle != "full":
        # Nothing can be derived of sums that were made of one triangle.
        hermitian = before is None and (
            levels > 0 or deriving_pays(device, system, n, k)
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
        combine_mirrors(device, system, residues, triangle)
