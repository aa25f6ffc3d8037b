"""Residues to a tile, or to both triangles of a square one, by one kernel."""

from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from .fill import pair_args
from .launch import (
    Device,
    closing_grid,
    count_matrices,
    flag_args,
    over_stack,
    remember,
    scalar_args,
    size_args,
    stack_stride,
    strides,
    tile_grid,
    triangle_arg,
)
from .sources import module_for
from .tables import decode_elements
from .tuning import tuning_for

# Residues of a modulus in decode_and_close.cu: SIDE rows of PITCH words.
_TURNED_BYTES = 32 * 9 * 4


def decode_residues(
    device: Device,
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex = 1,
    beta: complex = 0,
    c: Array | None = None,
    triangle: Uplo = "full",
) -> None:
    """Write ``alpha X Y^T + beta c``, or a triangle of it; out has 1 component or 2.

    Of residues (products, m, n or more), or (products, matrices, m, n or more).
    """
    n = out.shape[-1]
    components = 1 if out.ndim < residues.ndim else len(out)
    beside = c if c is not None else out if components == 1 else out[0]
    sizes, grid = _sizes(system, residues.shape, residues.strides, n)
    args = (
        *(residues, *sizes, rows, columns, *scalar_args(alpha), *scalar_args(beta)),
        *(c, *strides(beside), out, sizes[3], triangle_arg(triangle)),
        stack_stride(beside),
    )
    integer = tuning_for(device.capability()).integer_sums
    module = module_for("decode", out.dtype, system, components, integer=integer)
    device.launch(module, "decode", *grid, args)


def decode_and_close(
    device: Device,
    x: Array,
    y: Array,
    conjugate: tuple[bool, bool],
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
    uplo: Uplo,
    hermitian: bool,
) -> None:
    """Write a triangle of ``alpha X Y^T + beta c``, filled; close it as `uplo` says.

    Of operands that hold all of k, and residues of all products, or of one for each 2M
    modulus, if `hermitian`.
    """
    (n, k), beside = x.shape[-2:], out if c is None else c
    mirrored = len(residues) < system.num_products
    args = (
        *(*pair_args(x, y, conjugate), *size_args(n, k)),
        *(residues, *size_args(residues.strides[-2], residues.strides[0])),
        *(rows, columns),
        *(*scalar_args(alpha), *scalar_args(beta), c, *strides(beside), out),
        *flag_args(mirrored, hermitian, uplo == "upper", uplo == "full"),
        *map(stack_stride, (x, y, beside)),
    )
    integer = tuning_for(device.capability()).integer_sums
    module = module_for("decode_and_close", out.dtype, system, integer=integer)
    grid, block = closing_grid(n)
    grid = over_stack(grid, count_matrices(out))
    shared = _TURNED_BYTES * system.num_moduli if mirrored else 0
    device.launch(module, "decode_and_close", grid, block, args, shared)


@remember
def _sizes(
    system: ResidueSystem, shape: tuple[int, ...], strides: tuple[int, ...], n: int
) -> tuple[tuple[Any, ...], tuple[Any, Any]]:
    """Row stride, product stride, m and n; grid and block."""
    m, count = shape[-2], prod(shape[1:-2])
    sizes = tuple(map(np.int64, (strides[-2], strides[0], m, n)))
    return sizes, tile_grid(m, n, decode_elements(system), count)
