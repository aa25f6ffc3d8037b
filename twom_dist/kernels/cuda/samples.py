"""Launches of samples.cu: samples of 8 bits modulo 2^32.

Products are made as where none of our kernels multiplies; see `multiply`.
"""

from math import prod

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from .cublas import align
from .device import CudaDevice
from .hopper import LINE, ROW_GROUP
from .launch import (
    as_stack,
    count_matrices,
    matrix,
    scalar,
    stack_stride,
    strides,
    tile_grid,
)
from .planes import CudaEncoded
from .sources import module_for


def encode_samples(
    device: CudaDevice, x: Array, system: ResidueSystem, conjugate: bool
) -> CudaEncoded:
    """Make planes of int8, of numbers that are such integers."""
    (*stack, rows, k), parts = x.shape, system.parts
    x, (height, width) = as_stack(x), (align(rows, ROW_GROUP), align(k, LINE))
    matrices = count_matrices(x)
    planes = device.empty((parts, matrices * height, width), np.int8)
    if planes.size:
        plane = matrices * height * width
        layout = *strides(x), stack_stride(x), planes, height, width, plane
        grid = tile_grid(height, width, 4, matrices)
        module = module_for("samples", x.dtype)
        device.launch(module, "encode_samples", *grid, (x, rows, k, *layout))
    order = [*range(parts), *(~i for i in range(1, parts))]
    if conjugate:
        order = [order[i] for i in system.conjugate_planes or ()]
    return CudaEncoded(rows, k, planes, tuple(order), tuple(stack))


def decode_samples(
    device: CudaDevice,
    sums: Array,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
) -> None:
    """Write ``alpha X Y^T + beta c`` from sums (products, ..., m, n or more)."""
    (*stack, m, n), width = out.shape, sums.shape[-1]
    args = (
        *(sums, width, prod(stack) * m * width, m, n, scalar(alpha), scalar(beta)),
        *(matrix(c), out),
    )
    grid = tile_grid(m, n, 1, prod(stack))
    device.launch(module_for("samples", out.dtype), "decode_samples", *grid, args)
