"""Launches of samples.cu: samples of 8 bits modulo 2^32 or 2^64."""

from math import prod

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from . import tuning
from .cublas import align
from .device import CudaDevice
from .hopper import LINE, ROW_GROUP
from .launch import (
    LINE_BLOCK,
    as_stack,
    count_matrices,
    lies_across,
    matrix,
    scalar,
    stack_stride,
    strides,
    tile_grid,
    triangle_arg,
)
from .planes import CudaEncoded
from .sources import module_for

_SECTOR = 32


def encode_samples(
    device: CudaDevice, x: Array, system: ResidueSystem, conjugate: bool
) -> CudaEncoded:
    """Make planes of bytes: of integers of 8 bits, or of pairs of them as 16 bits."""
    (*stack, rows, k), parts = x.shape, system.parts
    if x.dtype.kind == "b":
        x = x.view(np.uint8) != 0  # any other byte is True
    x, padded = as_stack(x), (align(rows, ROW_GROUP), align(k, LINE))
    matrices, across = count_matrices(x), lies_across(x)
    kind = np.uint8 if x.dtype.kind == "u" else np.int8
    planes = device.empty((parts, matrices * padded[0], padded[1]), kind)
    if planes.size:
        own = _SECTOR // x.itemsize if across else tuning.ROWS_ALONG
        blocks = -(-padded[0] // own) * -(-padded[1] // (4 * 256 // own))
        layout = *strides(x), stack_stride(x), planes, *padded, planes[0].size
        args = x, rows, k, *layout, across, own
        module = module_for("samples", "c8" if parts == 2 else "f4", system)
        device.launch(module, "encode_samples", (blocks, matrices, 1), LINE_BLOCK, args)
    order = [*range(parts), *(~i for i in range(1, parts))]
    if conjugate:
        order = [order[i] for i in system.conjugate_planes or ()]
    return CudaEncoded(rows, k, planes, tuple(order), tuple(stack))


def decode_samples(
    device: CudaDevice,
    sums: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
    triangle: Uplo,
) -> None:
    """Write ``alpha X Y^T + beta c`` from sums (products, ..., m, n or more)."""
    (*stack, m, n), width = out.shape, sums.shape[-1]
    args = (
        *(sums, width, prod(stack) * m * width, m, n, scalar(alpha), scalar(beta)),
        *(matrix(c), out, triangle_arg(triangle)),
    )
    grid = tile_grid(m, n, 1, prod(stack))
    module = module_for("samples", out.dtype, system)
    device.launch(module, "decode_samples", *grid, args)
