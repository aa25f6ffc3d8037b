"""Residues to a tile, or to both triangles of a square one, by one kernel."""

from math import prod
from typing import Any

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from .device import CudaDevice
from .fill import pair
from .launch import (
    BLOCK,
    count_matrices,
    listed,
    matrix,
    scalar,
    stack_stride,
    tile_grid,
    triangle_arg,
)
from .sources import module_for
from .tables import decode_elements
from .tuning import tuning_for

# Residues of a modulus in decode_and_close.cu: SIDE rows of PITCH words.
_SIDE, _PITCH = 32, 9


class CudaDecode:
    """The launch of decode.cu."""

    device: CudaDevice

    def decode(
        self,
        residues: Array,
        rows: Array,
        columns: Array,
        system: ResidueSystem,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: Array | None = None,
        triangle: Uplo = "full",
        components: int = 1,
        out: Array | None = None,
    ) -> Array:
        """Reconstruct the tile by one kernel."""
        front = () if components == 1 else (components,)
        if out is None:
            shape = *rows.shape, columns.shape[-1]
            out = self.device.empty(
                shape if components == 1 else (components, *shape), dtype
            )
        if out.size:
            c = None if c is None else listed(c)
            x = residues.reshape(len(residues), -1, *residues.shape[-2:])
            tall = out.reshape(*front, *x.shape[1:3], -1)
            given = x, rows, columns, system, tall, alpha, beta, c, triangle
            decode_residues(self.device, *given)
        return out


def decode_residues(
    device: CudaDevice,
    residues: Array,
    rows: Array,
    columns: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
    triangle: Uplo = "full",
) -> None:
    """Write ``alpha X Y^T + beta c``, or a triangle of it; out has one word or two.

    Of residues (products, m, n or more), or (products, matrices, m, n or more).
    """
    (_, *stack, m, _), n = residues.shape, out.shape[-1]
    components = 1 if out.ndim < residues.ndim else len(out)
    args = (
        *(residues, residues.strides[-2], residues.strides[0], m, n, rows, columns),
        *(scalar(alpha), scalar(beta), matrix(c), out, n, triangle_arg(triangle)),
        stack_stride(c),
    )
    integer = tuning_for(device.capability()).integer_sums
    module = module_for("decode", out.dtype, system, components, integer=integer)
    grid = tile_grid(m, n, decode_elements(system), prod(stack))
    device.launch(module, "decode", *grid, args)


def decode_and_close(
    device: CudaDevice,
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
    n, k = x.shape[-2:]
    mirrored = len(residues) < system.num_products
    args = (
        *(pair(x, y, conjugate), n, k, residues, residues.strides[-2]),
        *(residues.strides[0], rows, columns, scalar(alpha), scalar(beta), matrix(c)),
        *(out, mirrored, hermitian, uplo == "upper", uplo == "full"),
        *map(stack_stride, (x, y, c)),
    )
    integer = tuning_for(device.capability()).integer_sums
    module = module_for("decode_and_close", out.dtype, system, integer=integer)
    squares = -(-n // _SIDE)
    grid = squares, squares, count_matrices(out)
    shared = 4 * _SIDE * _PITCH * system.num_moduli if mirrored else 0
    device.launch(module, "decode_and_close", grid, BLOCK, args, shared)
