"""Products in four launches: scale and encode, multiply, decode, fill.

Updates take three: what decodes one triangle fills it, and closes the other one. Of
``X X^H`` in 2M half of the products are multiplied: these are read twice.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem, ScalingRule
from ...typing import Array, Uplo
from . import tables, tuning
from .decode import decode_and_close, decode_residues
from .encoded import CudaEncoded
from .fill import fill_product
from .hopper import LINE, ROW_GROUP
from .int8_gemm import align
from .launch import (
    Device,
    Parts,
    count_matrices,
    lies_across,
    remember,
    stack_stride,
    strides,
)
from .products import multiply_fused
from .residues import multiply_planes
from .sources import module_for

# What the threads of a block of scale_and_encode.cu read at a time; bytes of shared
# memory that a block takes beside: two words a thread, and what CUDA reserves.
_GROUPS, _BESIDE = 4 * 256, 2 * 8 * 256 + 1024
_SECTOR = 32

_ABSENT = (
    None,
    None,
    *map(np.int64, (0, 0, 0)),
    *map(np.int32, (0, 0, 1)),
    np.int64(0),
)


def gemm_fused(
    device: Device,
    x: Array,
    y: Array,
    conjugate: tuple[bool, bool],
    system: ResidueSystem,
    rule: ScalingRule,
    dtype: Any,
    alpha: complex,
    beta: complex,
    c: Array | None,
    twin: tuple[int, ...] | None,
    uplo: Uplo | None,
    hermitian: bool,
    out: Array | None,
    shifts: Sequence[Array] | None,
) -> Array:
    """Compute ``alpha X Y^T + beta c``; see `kernels.fused_gemm`."""
    (*stack, m, k), n = x.shape, y.shape[-2]
    given = tuple(stack), m, n, k
    fused = tuning.tuning_for(device.capability()).fused
    halved = hermitian and fused and tables.is_paired(system)
    products = tables.own_products(system, halved)
    parts = _parts(system, *given, twin is None, len(products))
    residues, *own = device.empty_together(parts)
    rows, columns = own[1], own[-1]
    _scale_and_encode(device, (x, y), shifts, conjugate, system, rule, own)
    order = tuple(range(len(system.planes)))
    left = CudaEncoded(m, k, own[0], order, given[0])
    right = CudaEncoded(n, k, own[-2], order if twin is None else twin, given[0])
    triangle: Uplo = "full"
    if uplo is not None and not halved:
        triangle = "upper" if uplo == "upper" else "lower"
    planes = left, right, system, residues
    if halved:
        multiply_fused(device, *planes, products, None, triangle)
    else:
        multiply_planes(device, *planes, None, hermitian, triangle)
    if out is None:
        out = device.empty((*stack, m, n), dtype)
    decoded = residues, rows, columns, system, out, alpha, beta, c
    if uplo is None:
        decode_residues(device, *decoded)
        fill_product(device, x, y, rows, columns, conjugate, out, alpha, beta, c)
    else:
        decode_and_close(device, x, y, conjugate, *decoded, uplo, hermitian)
    return out


@remember
def _parts(
    system: ResidueSystem,
    stack: tuple[int, ...],
    m: int,
    n: int,
    k: int,
    both: bool,
    products: int,
) -> Parts:
    """List what one allocation holds: residues, planes and exponents of each side."""
    count, matrices, k_padded = len(system.planes), prod(stack), align(k, LINE)
    parts: list[Any] = [((products, *stack, m, align(n)), np.int8)]
    for rows in (m, n) if both else (m,):
        padded = matrices * align(rows, ROW_GROUP)
        parts.append(((count, padded, k_padded), np.int8))
        parts.append(((*stack, rows), np.int32))
    return tuple(parts)


def _scale_and_encode(
    device: Device,
    operands: tuple[Array, Array],
    shifts: Sequence[Array] | None,
    conjugate: tuple[bool, bool],
    system: ResidueSystem,
    rule: ScalingRule,
    own: list[Array],
) -> None:
    """Fill the planes and exponents of `own`, of both operands or of x alone."""
    (x, y), (e, f) = operands, shifts or (None, None)
    shifted = shifts is not None
    module = module_for("scale_and_encode", x.dtype, system, shifted=shifted)
    k, k_padded = x.shape[-1], own[0].shape[2]
    limit = device.shared_bytes()
    blocks, kept, first = _operand(x, e, conjugate[0], own[0], limit)
    count, shared, second, outs = blocks, kept, _ABSENT, (None, None)
    if len(own) == 4:
        more, kept, second = _operand(y, f, conjugate[1], own[2], limit)
        count, shared, outs = blocks + more, max(shared, kept), (own[2], own[3])
    args = (
        *(*first, own[0], own[1], *second, *outs),
        *(*_rule_args(blocks, k, k_padded, rule), stack_stride(x), stack_stride(y)),
    )
    grid, block = (count, 1, count_matrices(x)), (256, 1, 1)
    device.launch(module, "scale_and_encode", grid, block, args, shared)


def _operand(
    x: Array, shifts: Array | None, conjugate: bool, planes: Array, limit: int
) -> tuple[int, int, tuple[Any, ...]]:
    """Count an operand's blocks and what one keeps; list arguments except outputs."""
    across, (_, height, k_padded) = lies_across(x), planes.shape
    sizes = height * k_padded, k_padded, x.itemsize, limit
    given = x.shape[-2], across, conjugate, *sizes
    blocks, kept, args = _operand_args(*given)
    return blocks, kept, (x, shifts, args[0], *strides(x), *args[1:])


@remember
def _operand_args(
    rows: int,
    across: bool,
    conjugate: bool,
    plane: int,
    k_padded: int,
    itemsize: int,
    limit: int,
) -> tuple[int, int, tuple[Any, ...]]:
    own, kept = rows_of_block(across, k_padded, itemsize, limit)
    sizes = np.int64(rows), *map(np.int32, (conjugate, across, own))
    return align(rows, ROW_GROUP) // own, kept, (*sizes, np.int64(plane))


@remember
def rows_of_block(
    across: bool, k_padded: int, itemsize: int, limit: int
) -> tuple[int, int]:
    """Choose the rows of a block of scale_and_encode.cu, and count the bytes it keeps.

    As many as leave room for `tuning.BLOCKS_AT_ONCE` blocks, one or more; across,
    those that share a sector of 32 bytes, if that leaves room for two.
    """
    rows, least = tuning.ROWS_ALONG, 1
    if across:
        rows, least = tuning.ROWS_ACROSS, _SECTOR // itemsize
    while True:
        kept = align(k_padded * rows, _GROUPS if rows > 1 else 1) * itemsize
        blocks = tuning.BLOCKS_AT_ONCE if rows > least else 2
        if rows == 1 or blocks * (kept + _BESIDE) <= limit:
            return rows, kept
        rows //= 2


def fits(device: Device, system: ResidueSystem, k: int) -> bool:
    """Tell whether two blocks can keep a row each, in double precision.

    With one a multiprocessor reads or writes, but not both: of n = 8192 on an H200 both
    sides took 3.8 ms, and 3.2 by two passes of norms.cu and one of encode.cu; with two,
    of 5000, 1.14 and 1.22.
    """
    itemsize = 8 * len(system.weights)
    return 2 * (itemsize * align(k, LINE) + _BESIDE) <= device.shared_bytes()


@remember
def _rule_args(
    blocks: int, k: int, k_padded: int, rule: ScalingRule
) -> tuple[Any, ...]:
    sizes = np.uint32(blocks), np.int64(k), np.int64(k_padded)
    power, bits = np.int32(rule.power), np.int32(rule.norm_bits)
    return *sizes, power, np.uint64(rule.leading), bits
