"""Products in three launches: scale and encode, multiply, decode and fill.

The last one of an update decodes a triangle, and writes its mirror image. For ``X X^H``
in 2M half of the products are computed, and read twice.
"""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem, ScalingRule
from ...typing import Array
from ..limits import FusedProduct
from ..statistics import RowStatistics
from . import tuning
from .cublas import align
from .decode import decode_and_fill
from .device import CudaDevice
from .hopper import LINE, ROW_GROUP
from .launch import LINE_BLOCK, lies_across, remember, stack_stride, strides
from .multiply import multiply_planes
from .planes import CudaEncoded, PlaneProducts
from .rows import rule_args
from .samples import gemm_samples
from .scripts import Scripts
from .sources import module_for

# Bytes of shared memory that CUDA reserves for each block, and all that a block of
# scale_and_encode.cu takes beside rows, whose four parts lie a sector apart.
_SECTOR, _RESERVED = 32, 1024
_BESIDE = 4 * _SECTOR + 2 * 8 * 128 + _RESERVED


class CudaFusedGemm:
    """Products by one allocation besides the result, and no wait."""

    device: CudaDevice
    scripts: Scripts

    def gemm_fused(
        self,
        where: tuple[int, tuning.Tuning, bool, bool],
        product: FusedProduct,
        x: Array,
        y: Array,
        *,
        c: Array | None = None,
        out: Array | None = None,
        shifts: Sequence[Array] | None = None,
        known: Sequence[RowStatistics] | None = None,
        places: Sequence[int] | None = None,
    ) -> Array:
        """Compute ``alpha X Y^T + beta c``, by a script where one kernel multiplies.

        `where`: what `variant` returns, whether a kernel of ours multiplies, and
        whether matrices that are no stack in quarters (Winograd's algorithm).
        """
        number, tuned, fused, quarters = where
        if product.system.wraps:
            return gemm_samples(self, product, x, y, c, out)
        # One copy from the host of so few numbers, where all operands would be copied.
        own = None if places is None else self.device.send(np.array(places, np.int32))
        given = x, y, c, out, own, *(shifts or (None, None))
        write, key = partial(_write, product, fused, quarters), (tuned, product)
        if quarters or not fused:
            return write(self.device, *given)
        made = self.scripts.run(self.device, number, key, given, write, product.alike)
        return made if out is None else out


def _write(
    product: FusedProduct,
    fused: bool,
    quarters: bool,
    device: Any,
    x: Array,
    y: Array,
    c: Array | None,
    out: Array | None,
    places: Array | None,
    *shifts: Array | None,
) -> Array:
    """Launch all of a product; `fused` and `quarters`: see `gemm_fused`."""
    conjugate, system, rule, dtype, alpha, beta, twin, uplo, hermitian, turned, *_ = (
        product
    )
    x = x.swapaxes(-1, -2) if turned[0] else x
    y = y.swapaxes(-1, -2) if turned[1] else y
    (*stack, m, k), n = x.shape, y.shape[-2]
    stack = stack if places is None else [*places.shape]
    matrices, quarters = prod(stack), quarters and not stack
    # In 2M alone each modulus has two products, R and R^T, of ``X X^H``.
    halved = hermitian and fused and {*system.kinds} == {"2m"}
    products = system.own_products(halved)
    # Residues, and planes and exponents of each side.
    parts: list[Any] = [((len(products), *stack, m, align(n)), np.int8)]
    for rows in (m, n) if twin is None else (m,):
        padded = matrices * align(rows, ROW_GROUP), align(k, LINE)
        parts.append(((len(system.planes), *padded), np.int8))
        parts.append(((*stack, rows), np.int32))
    residues, *own = device.allocate(tuple(parts))
    rows, columns = own[1], own[-1]
    sides = [*zip((x, y), shifts, conjugate, strict=True)]
    _scale_and_encode(device, sides, system, rule, own, places)
    order = tuple(range(len(system.planes)))
    left = CudaEncoded(m, k, own[0], order, tuple(stack))
    right = CudaEncoded(n, k, own[-2], twin or order, tuple(stack))
    task = PlaneProducts(left, right, system, residues)
    triangle = "full" if halved else "lower" if uplo == "full" else uplo or "full"
    multiply_planes(device, task, hermitian, triangle, quarters, fused)
    out = device.empty((*stack, m, n), dtype) if out is None else out
    decoded = residues, rows, columns, system, out, alpha, beta, c
    decode_and_fill(device, x, y, conjugate, *decoded, uplo, hermitian, places)
    return out


def _scale_and_encode(
    device: Any,
    sides: Sequence[tuple[Array, Array | None, bool]],
    system: ResidueSystem,
    rule: ScalingRule,
    own: list[Array],
    places: Array | None,
) -> None:
    """Fill the planes and exponents of `own`, of both operands or of x alone."""
    (x, shifts, _), k_padded = sides[0], own[0].shape[2]
    limit, tiles, kept, described = device.shared_bytes() + _RESERVED, [], 0, []
    # What blocks cannot keep of a row.
    rest = max(0, k_padded - (limit - _BESIDE) // x.itemsize // LINE * LINE)
    matrices = own[1].size // x.shape[-2]
    outs = zip(own[::2], own[1::2], strict=True)
    for (t, e, conjugated), (out, exponents) in zip(sides, outs, strict=False):
        across = lies_across(t)
        rows = rows_of_block(across, k_padded * t.itemsize, t.itemsize, limit)
        tiles.append(out.shape[1] // rows)
        sizes = (*strides(t), conjugated, across, rows, tiles[-1] // matrices)
        of_t = t, e, t.shape[-2], *sizes, out.shape[1] * k_padded, out, exponents
        described.append((*of_t, stack_stride(t)))
        kept = max(kept, rows * (k_padded - rest) * t.itemsize)
    macros = {"shifted": shifts is not None, "whole": rest == 0}
    module = module_for("scale_and_encode", x.dtype, system, **macros)
    threads = int(dict(module.macros)["THREADS"])
    resident = min(limit // (kept + _BESIDE), threads // LINE_BLOCK[0])
    threads = 1 << (threads // resident).bit_length() - 1
    # Blocks stay, and each has one operand: they are shared by rows.
    most, shares = device.multiprocessors() * resident, [t.shape[1] for t in own[::2]]
    blocks = [
        min(count, max(1, most * share // sum(shares)))
        for count, share in zip(tiles, shares, strict=True)
    ]
    # Without y, x has all blocks, and what stands for y is not read.
    both = described[0], described[-1]
    args = *both, blocks[0], matrices, x.shape[-1], k_padded, rest, rule_args(rule)
    grid, block = (sum(blocks), 1, 1), (threads, 1, 1)
    shared = kept + 4 * _SECTOR
    device.launch(module, "scale_and_encode", grid, block, (*args, places), shared)


@remember
def rows_of_block(across: bool, row_bytes: int, itemsize: int, limit: int) -> int:
    """Choose the rows that a block of scale_and_encode.cu keeps at a time.

    As many as leave room for `tuning.BLOCKS_AT_ONCE` blocks, one or more; across,
    those that share a sector of 32 bytes, if they leave room for one.
    """
    rows = tuning.ROWS_ACROSS if across else tuning.ROWS_ALONG
    least = _SECTOR // itemsize if across else 1
    while rows > 1:
        blocks = tuning.BLOCKS_AT_ONCE if rows > least else 1
        if blocks * (rows * row_bytes + _BESIDE) <= limit:
            break
        rows //= 2
    return rows


def fits(device: CudaDevice, system: ResidueSystem, rows: int, k: int) -> bool:
    """Tell whether blocks of scale_and_encode.cu should take `rows` of both operands.

    They keep these in double precision, or no multiprocessor waits long for others.
    """
    kept = 8 * len(system.weights) * align(k, LINE) + _BESIDE
    whole = system.wraps or kept <= device.shared_bytes() + _RESERVED
    return whole or rows >= 2 * device.multiprocessors()
