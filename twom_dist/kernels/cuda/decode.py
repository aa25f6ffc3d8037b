"""Residues to a tile, by one kernel."""

from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from .launch import (
    Device,
    remember,
    scalar_args,
    stack_stride,
    strides,
    tile_grid,
    triangle_arg,
)
from .sources import module_for
from .tables import decode_elements
from .tuning import tuning_for


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
    """Write ``alpha X Y^T + beta c``, or a triangle of it; out has one word or two.

    Of residues (products, m, n or more), or (products, matrices, m, n or more).
    """
    n = out.shape[-1]
    words = 1 if out.ndim < residues.ndim else len(out)
    beside = c if c is not None else out if words == 1 else out[0]
    sizes, grid = _sizes(system, residues.shape, residues.strides, n)
    args = (
        *(residues, *sizes, rows, columns, *scalar_args(alpha), *scalar_args(beta)),
        *(c, *strides(beside), out, sizes[3], triangle_arg(triangle)),
        stack_stride(beside),
    )
    integer = tuning_for(device.capability()).integer_sums
    module = module_for("decode", out.dtype, system, words, integer=integer)
    device.launch(module, "decode", *grid, args)


@remember
def _sizes(
    system: ResidueSystem, shape: tuple[int, ...], strides: tuple[int, ...], n: int
) -> tuple[tuple[Any, ...], tuple[Any, Any]]:
    """Row stride, product stride, m and n; grid and block."""
    m, count = shape[-2], prod(shape[1:-2])
    sizes = tuple(map(np.int64, (strides[-2], strides[0], m, n)))
    return sizes, tile_grid(m, n, decode_elements(system), count)
